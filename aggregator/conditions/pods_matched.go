package conditions

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// setPodsMatchedCondition writes that a protector has no pod to protect. A protector that has one does not have this condition.
func setPodsMatchedCondition(p *v1alpha1.PodProtector) {
	matched := metav1.Condition{Type: v1alpha1.ConditionPodsMatched, Status: metav1.ConditionFalse, ObservedGeneration: p.Generation}
	switch quota.MatchOf(p) {
	case quota.MatchUnknown:
		return // what was found before stays, for as long as the cells count again
	case quota.MatchPods:
		meta.RemoveStatusCondition(&p.Status.Conditions, matched.Type)
		return
	case quota.MatchScaledToZero:
		matched.Reason = v1alpha1.ReasonScaledToZero
		matched.Message = "Its workload is scaled to 0: nothing is protected until it is scaled up."
	case quota.MatchNothing:
		matched.Reason = v1alpha1.ReasonNoPodMatches
		matched.Message = noPodMatchesMessage(p)
	}
	meta.SetStatusCondition(&p.Status.Conditions, matched)
}

func noPodMatchesMessage(p *v1alpha1.PodProtector) string {
	if ref := p.Spec.TargetRef; ref != nil {
		return fmt.Sprintf("No cell has a pod of %s %s in namespace %s: nothing is protected. Find out why its pods do not exist: kubectl describe -n %s %s/%s "+
			"in the clusters of the cells.", ref.Kind, ref.Name, p.Namespace, p.Namespace, ref.Kind, ref.Name)
	}
	return fmt.Sprintf("No cell has a pod in namespace %s that the selector matches: nothing is protected. Compare the selector with the labels of the pods: "+
		"kubectl get pods -n %s --show-labels in the clusters of the cells.", p.Namespace, p.Namespace)
}

// setForceDeletableCondition writes how many pods the floor does not protect because they have the annotation of a break-glass removal. A
// protector that never had such a pod does not get this condition.
func setForceDeletableCondition(p *v1alpha1.PodProtector) {
	total, cells := int32(0), []string(nil)
	for i := range p.Status.Cells {
		if number := p.Status.Cells[i].Aggregation.ForceDeletableReplicas; number > 0 {
			total = quota.AddSaturating(total, number)
			cells = append(cells, fmt.Sprintf("%d in cell %s", number, p.Status.Cells[i].CellID))
		}
	}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionForceDeletable, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPodsAnnotated, ObservedGeneration: p.Generation,
	}
	switch {
	case total > 0:
		condition.Message = clusters.Truncate(fmt.Sprintf("The floor does not protect %s with the annotation %s: %s.",
			printable.Count(int(total), "pod"), v1alpha1.AnnotationForceDelete, strings.Join(cells, ", ")), 1000)
	case meta.FindStatusCondition(p.Status.Conditions, condition.Type) == nil:
		return
	default:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonNoPodAnnotated
		condition.Message = fmt.Sprintf("No pod has the annotation %s.", v1alpha1.AnnotationForceDelete)
	}
	meta.SetStatusCondition(&p.Status.Conditions, condition)
}
