// Package conditions concludes the summary and the conditions of a protector from the counts of all cells in its status. It reads only the
// object, so that the aggregators of all cells come to the same result.
package conditions

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// Summarize writes the summary and the conditions, which follow from the cells. It reads only the object, so the
// aggregators of all cells come to the same result. now decides only when an observation ends that the object records.
func Summarize(p *v1alpha1.PodProtector, now time.Time) {
	quota.Summarize(p)
	setGuardedCondition(p)
	ready := readyCondition(p)
	ready.ObservedGeneration = p.Generation
	meta.SetStatusCondition(&p.Status.Conditions, ready)
	setTargetCondition(p)
	setSpreadCondition(p)
	setForceDeletableCondition(p)
	setExpectationCondition(p, now)
	setPodsMatchedCondition(p)
}

// readyCondition returns whether a protector is effective. It follows the condition Guarded, which is set before.
func readyCondition(p *v1alpha1.PodProtector) metav1.Condition {
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}
	if _, err := selectors.CoverageOf(&p.Spec, nil); err != nil {
		ready.Reason = v1alpha1.ReasonInvalidSelector
		ready.Message = fmt.Sprintf("The webhook denies all removals of pods that the selector may match. Correct the selector: %v", err)
		return ready
	}
	counted, cells := quota.CountedSpec(&p.Spec), 0
	var problems []string
	for i := range p.Status.Cells {
		a := &p.Status.Cells[i].Aggregation
		if a.Void {
			ready.Reason = v1alpha1.ReasonNotAggregated
			ready.Message = "This PodProtector or its core cluster was restored. The webhook denies removals until all cells are counted again, " +
				"after earlier removals have taken effect."
			return ready
		}
		if a.CountedSpec == counted {
			cells++
		} else {
			problems = append(problems, fmt.Sprintf("cell %s has not counted its pods for this spec", p.Status.Cells[i].CellID))
		}
		if a.ExpectedReplicasProblem != "" {
			problems = append(problems, fmt.Sprintf("cell %s: %s", p.Status.Cells[i].CellID, a.ExpectedReplicasProblem))
		}
	}
	if cells == 0 {
		ready.Reason = v1alpha1.ReasonNotAggregated
		ready.Message = "No aggregator has counted the pods of this spec yet; the webhook denies removals until one has."
		return ready
	}
	if _, isKnown := quota.Floor(p); !isKnown {
		ready.Reason = v1alpha1.ReasonFloorUnknown
		ready.Message = strings.TrimSpace("The floor cannot be computed, because the expected number of pods is unknown. " +
			"The webhook denies removals until it is known. " + strings.Join(problems, "; "))
		return ready
	}
	if _, err := selectors.CountedCoverageOf(&p.Spec, nil); err != nil {
		ready.Reason = v1alpha1.ReasonInvalidSelector
		ready.Message = fmt.Sprintf("Only the protected pods are counted: %v", err)
		return ready
	}
	if guarded := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionGuarded); guarded != nil && guarded.Status == metav1.ConditionFalse {
		ready.Reason, ready.Message = guarded.Reason, guarded.Message
		return ready
	}
	ready.Status, ready.Reason = metav1.ConditionTrue, v1alpha1.ReasonAggregated
	ready.Message = fmt.Sprintf("Pods are counted in %d of %d cells.", cells, len(p.Status.Cells))
	return ready
}
