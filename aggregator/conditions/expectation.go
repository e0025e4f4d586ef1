package conditions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

const (
	// excessDelay is how long more pods than expected may be available before ExpectationBelowPods is true. A rollout that surges, switches
	// colors, or replaces drained pods first has extra pods until it removes the old ones. Kubernetes and Argo Rollouts report a rollout
	// as stuck after ten minutes without progress (the default of progressDeadlineSeconds). The other five minutes are for removals
	// that end late: delays before the scale-down, grace periods, and backoffs after denials.
	excessDelay = 15 * time.Minute
	// maxStatedWorkloads is the maximum number of workloads in a message.
	maxStatedWorkloads = 5
)

// setExpectationCondition writes whether more pods are available than are expected, for longer than a rollout. This is the sign of an expectation in
// another unit than pods: the scale of an owner may count shards, and spec.expectedReplicas may be outdated. The floor is then too low,
// although it is known.
func setExpectationCondition(p *v1alpha1.PodProtector, now time.Time) {
	condition := expectationCondition(p, now)
	if condition == nil {
		meta.RemoveStatusCondition(&p.Status.Conditions, v1alpha1.ConditionExpectationBelowPods)
		return
	}
	meta.SetStatusCondition(&p.Status.Conditions, *condition)
}

// expectationCondition returns the condition ExpectationBelowPods at a time; nil if the protector has none. The stored condition records since when
// there are more pods, so that another leader continues the observation. The condition stays as it is while the numbers are unknown: the
// condition Ready has the reason.
func expectationCondition(p *v1alpha1.PodProtector, now time.Time) *metav1.Condition {
	if !quota.UsesExpected(&p.Spec) {
		return nil
	}
	stored := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionExpectationBelowPods)
	expected, known := quota.Expected(p)
	if !known {
		return stored
	}
	available := quota.Available(p)
	condition := &metav1.Condition{
		Type: v1alpha1.ConditionExpectationBelowPods, ObservedGeneration: p.Generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	}
	if available <= expected {
		if stored == nil {
			return nil
		}
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonPodsExpected
		condition.Message = "No more pods are available than are expected."
		return condition
	}
	if stored != nil && stored.Status != metav1.ConditionFalse {
		condition.LastTransitionTime = stored.LastTransitionTime
	}
	if now.Sub(condition.LastTransitionTime.Time) < excessDelay {
		condition.Status, condition.Reason = metav1.ConditionUnknown, v1alpha1.ReasonObserving
		condition.Message = fmt.Sprintf("More pods are available than are expected, as in a rollout. If this lasts for %d minutes, the expectation is too low.",
			int(excessDelay.Minutes()))
		return condition
	}
	condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonMorePodsThanExpected
	condition.Message = clusters.Truncate(excessMessage(p, available, expected), maxMessageBytes)
	return condition
}

// excessMessage describes the numbers, where the expectation comes from, what follows for the floor, and what to do.
func excessMessage(p *v1alpha1.PodProtector, available, expected int) string {
	source, remedy := "spec.expectedReplicas", "correct spec.expectedReplicas, or select only the pods that it counts"
	if p.Spec.ExpectedReplicas == nil {
		source = strings.Join(statedExpectations(p), ", ")
		remedy = "set spec.expectedReplicas, or select only the pods that these workloads count"
	}
	from := ""
	if source != "" {
		from = ": " + source
	}
	effect := ""
	if floor, known := quota.Floor(p); known {
		effect = fmt.Sprintf(" The floor is computed from %d, so that it protects at most %d of %d pods.", expected, floor, available)
	}
	return fmt.Sprintf("More pods are available (%d) than are expected (%d%s).%s If no rollout is paused, %s.", available, expected, from, effect, remedy)
}

// statedExpectations returns the workloads that state how many pods are expected, with their numbers and cells.
func statedExpectations(p *v1alpha1.PodProtector) (all []string) {
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		if cell.Discount == v1alpha1.DiscountCleared {
			continue
		}
		workloads := cell.Aggregation.Workloads
		if target := cell.Aggregation.Target; p.Spec.TargetRef != nil && target != nil {
			workloads = []v1alpha1.ExpectedWorkload{{Kind: p.Spec.TargetRef.Kind, Name: p.Spec.TargetRef.Name, Replicas: target.Replicas, Gone: target.Gone}}
		}
		for _, w := range workloads {
			name, gone := w.Name, ""
			if w.Kind != "" {
				name = w.Kind + "/" + w.Name
			}
			if w.Gone {
				gone = ", which no longer exists,"
			}
			all = append(all, fmt.Sprintf("%s%s has %d in cell %s", name, gone, w.Replicas, cell.CellID))
		}
	}
	if more := len(all) - maxStatedWorkloads; more > 0 {
		all = append(all[:maxStatedWorkloads], fmt.Sprintf("and %d more", more))
	}
	return all
}

// ExcessObservation returns after which time the condition becomes true without another event; 0 if it does not.
func ExcessObservation(p *v1alpha1.PodProtector, now time.Time) time.Duration {
	stored := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionExpectationBelowPods)
	if stored == nil || stored.Reason != v1alpha1.ReasonObserving {
		return 0
	}
	return max(stored.LastTransitionTime.Add(excessDelay).Sub(now), 0)
}

// WithoutExcess returns conditions for a comparison that ignores how many pods there are more than expected, and since when. Only the
// step to or from true is a difference that must be written: in a rollout, each new and each removed pod begins or ends an observation.
func WithoutExcess(conditions []metav1.Condition) []metav1.Condition {
	at := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionExpectationBelowPods })
	if at < 0 {
		return conditions
	}
	compared := slices.Clone(conditions)
	if compared[at].Status != metav1.ConditionTrue {
		return slices.Delete(compared, at, at+1)
	}
	compared[at].Message = ""
	return compared
}
