package conditions

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// setTargetCondition writes whether targetRef leads to a workload. For a protector with a selector the generator owns the
// condition, and setTargetCondition only removes the remainder of an earlier targetRef.
func setTargetCondition(p *v1alpha1.PodProtector) {
	if p.Spec.TargetRef != nil {
		resolved := targetResolvedCondition(p)
		resolved.ObservedGeneration = p.Generation
		meta.SetStatusCondition(&p.Status.Conditions, resolved)
		return
	}
	stored := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved)
	if stored == nil {
		return
	}
	switch stored.Reason {
	case v1alpha1.ReasonTargetFound, v1alpha1.ReasonTargetGone, v1alpha1.ReasonTargetNotFound, v1alpha1.ReasonTargetUnknown:
		meta.RemoveStatusCondition(&p.Status.Conditions, v1alpha1.ConditionTargetResolved)
	}
}

func targetResolvedCondition(p *v1alpha1.PodProtector) metav1.Condition {
	resolved := metav1.Condition{Type: v1alpha1.ConditionTargetResolved, Status: metav1.ConditionFalse}
	named := p.Spec.TargetRef.Kind + " " + p.Spec.TargetRef.Name
	counted := quota.CountedSpec(&p.Spec)
	var found, deleted, problems []string
	cells := 0
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		if problem := cell.Aggregation.TargetProblem; problem != "" {
			problems = append(problems, fmt.Sprintf("cell %s: %s", cell.CellID, problem))
		}
		if cell.Aggregation.CountedSpec != counted {
			continue
		}
		cells++
		switch target := cell.Aggregation.Target; {
		case target == nil:
		case target.Gone:
			deleted = append(deleted, cell.CellID)
		default:
			found = append(found, cell.CellID)
		}
	}
	switch {
	case len(problems) > 0:
		resolved.Reason, resolved.Message = v1alpha1.ReasonTargetUnknown, "Cannot determine which pods are protected: "+strings.Join(problems, "; ")
	case cells == 0:
		resolved.Status, resolved.Reason = metav1.ConditionUnknown, v1alpha1.ReasonNotAggregated
		resolved.Message = "No aggregator has looked for " + named + " yet."
	case len(deleted) > 0:
		resolved.Reason = v1alpha1.ReasonTargetGone
		resolved.Message = fmt.Sprintf("%s no longer exists in cell %s. Its pods stay protected and expected. Recreate it or, if the deletion was "+
			"intended, set targetRemovalPolicy to Release or delete this PodProtector.", named, strings.Join(deleted, ", "))
	case len(found) == 0:
		resolved.Reason = v1alpha1.ReasonTargetNotFound
		resolved.Message = fmt.Sprintf("No cell has %s of %s in this namespace: no pod is protected. Create it, or correct targetRef.",
			named, p.Spec.TargetRef.APIVersion)
	default:
		resolved.Status, resolved.Reason = metav1.ConditionTrue, v1alpha1.ReasonTargetFound
		resolved.Message = fmt.Sprintf("Protects the pods of %s in cell %s.", named, strings.Join(found, ", "))
	}
	return resolved
}
