package status

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Gap is a way in which a protector looks effective and is not.
type Gap string

// Gaps of a protector.
const (
	// GapUnguarded means that the cluster of a cell does not call the webhook for removals in the namespace.
	GapUnguarded Gap = "unguarded"
	// GapGuardUnknown means that it is unknown whether a cluster does.
	GapGuardUnknown Gap = "guardUnknown"
	// GapNoPods means that no cell has a pod that the protector selects.
	GapNoPods Gap = "noPods"
	// GapMisspelt means that the workload has a label or annotation of Breakwater that has no effect.
	GapMisspelt Gap = "misspelt"
	// GapScaledToZero means that there is no pod because the workload is scaled to 0. It is no reason for an alarm.
	GapScaledToZero Gap = "scaledToZero"
)

// GapsOf returns the gaps of a protector. The aggregators and the generator determine them, and record them as conditions.
func GapsOf(p *v1alpha1.PodProtector) (gaps []Gap) {
	if guarded := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionGuarded); guarded != nil {
		switch guarded.Status {
		case metav1.ConditionFalse:
			gaps = append(gaps, GapUnguarded)
		case metav1.ConditionUnknown:
			gaps = append(gaps, GapGuardUnknown)
		}
	}
	matched := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionPodsMatched)
	switch {
	case matched == nil || matched.Status != metav1.ConditionFalse:
	case matched.Reason == v1alpha1.ReasonScaledToZero:
		gaps = append(gaps, GapScaledToZero)
	default:
		gaps = append(gaps, GapNoPods)
	}
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved); c != nil && c.Reason == v1alpha1.ReasonUnknownKey {
		gaps = append(gaps, GapMisspelt)
	}
	return gaps
}

// describe returns the display name of the gap, and the type of the condition that explains it.
func (g Gap) describe() (text, condition string) {
	switch g {
	case GapUnguarded:
		return "not guarded", v1alpha1.ConditionGuarded
	case GapGuardUnknown:
		return "guard unknown", v1alpha1.ConditionGuarded
	case GapNoPods:
		return "matches no pod", v1alpha1.ConditionPodsMatched
	case GapMisspelt:
		return "misspelt label or annotation", v1alpha1.ConditionTargetResolved
	default:
		return "scaled to 0", v1alpha1.ConditionPodsMatched
	}
}

// Text returns the display name of the gap.
func (g Gap) Text() string {
	text, _ := g.describe()
	return text
}

// Condition returns the type of the condition that explains the gap.
func (g Gap) Condition() string {
	_, condition := g.describe()
	return condition
}

// IsNeutral reports whether the gap is what the user has asked for.
func (g Gap) IsNeutral() bool { return g == GapScaledToZero }

// AboveExpected returns how many more pods are available than are expected, if that has lasted for longer than a rollout; otherwise 0. The floor
// of the protector may then be too low.
func AboveExpected(p *v1alpha1.PodProtector) int {
	if !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionExpectationBelowPods) {
		return 0
	}
	expected, known := quota.Expected(p)
	if !known {
		return 0 // the floor is unknown, too
	}
	return max(0, quota.Available(p)-expected)
}
