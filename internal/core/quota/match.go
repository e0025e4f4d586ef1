package quota

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Match is whether a protector has any pod to protect.
type Match string

const (
	// MatchUnknown means that not all cells have counted by the current spec, or that the workload of targetRef was not found, which the
	// condition TargetResolved reports.
	MatchUnknown Match = "Unknown"
	// MatchPods means that a cell has a pod that the protector selects.
	MatchPods Match = "Pods"
	// MatchNothing means that no cell has one, although no workload of the protector is known to be scaled to 0.
	MatchNothing Match = "Nothing"
	// MatchScaledToZero means that no cell has one, because the workload is scaled to 0.
	MatchScaledToZero Match = "ScaledToZero"
)

// MatchOf returns whether a protector has any pod to protect. It counts all pods, not only available ones.
func MatchOf(p *v1alpha1.PodProtector) Match {
	counted, cells, isComplete := CountedSpec(&p.Spec), 0, true
	for i := range p.Status.Cells {
		switch a := &p.Status.Cells[i].Aggregation; {
		case p.Status.Cells[i].Discount == v1alpha1.DiscountCleared:
		case a.Void || a.CountedSpec != counted:
			isComplete = false
		case a.TotalReplicas > 0:
			return MatchPods
		default:
			cells++
		}
	}
	switch {
	case cells == 0 || !isComplete:
		return MatchUnknown
	case isScaledToZero(p):
		return MatchScaledToZero
	case p.Spec.TargetRef != nil && !hasTarget(p):
		return MatchUnknown
	default:
		return MatchNothing
	}
}

// isScaledToZero reports whether an object that states how many pods there should be states 0: the spec, the source as the generator saw it,
// or the workloads that the cells know. An expectation of 0 without any workload is no evidence: a selector with a mistake has it too.
func isScaledToZero(p *v1alpha1.PodProtector) bool {
	if p.Spec.ExpectedReplicas != nil {
		return *p.Spec.ExpectedReplicas == 0
	}
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved); c != nil && c.Reason == v1alpha1.ReasonScaledToZero {
		return true
	}
	workloads, replicas := 0, int32(0)
	for i := range p.Status.Cells {
		a := &p.Status.Cells[i].Aggregation
		for _, w := range a.Workloads {
			workloads, replicas = workloads+1, AddSaturating(replicas, w.Replicas)
		}
		if a.Target != nil {
			workloads, replicas = workloads+1, AddSaturating(replicas, a.Target.Replicas)
		}
	}
	return workloads > 0 && replicas == 0
}

func hasTarget(p *v1alpha1.PodProtector) bool {
	for i := range p.Status.Cells {
		if p.Status.Cells[i].Aggregation.Target != nil {
			return true
		}
	}
	return false
}
