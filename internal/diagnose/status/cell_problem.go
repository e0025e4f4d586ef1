package status

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// CellProblem describes the conditions of a Cell that indicate a problem. It is empty if there is none.
func CellProblem(cell *v1alpha1.Cell) string {
	if !cell.DeletionTimestamp.IsZero() {
		return "is being deleted and is not drained yet"
	}
	var problems []string
	for _, name := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionAggregationFresh, v1alpha1.ConditionConnected, v1alpha1.ConditionGuarded,
	} {
		switch condition := meta.FindStatusCondition(cell.Status.Conditions, name); {
		case isUnobservable(cell, name, condition):
		case condition == nil:
			problems = append(problems, fmt.Sprintf("no controller has set condition %s yet: check that the aggregator and the topology controller run", name))
		case condition.Status != metav1.ConditionTrue:
			problems = append(problems, fmt.Sprintf("%s=%s (%s): %s", name, condition.Status, condition.Reason, condition.Message))
		}
	}
	if meta.IsStatusConditionFalse(cell.Status.Conditions, v1alpha1.ConditionWebhookAvailable) {
		problems = append(problems, meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionWebhookAvailable).Message)
	}
	if meta.IsStatusConditionTrue(cell.Status.Conditions, v1alpha1.ConditionOverlapping) {
		problems = append(problems, meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionOverlapping).Message)
	}
	return strings.Join(problems, "; ")
}

// isUnobservable reports whether a condition is missing because the topology controller cannot connect to the cluster: the Cell has no
// kubeconfig, and no flag gives the controller access to the cluster.
func isUnobservable(cell *v1alpha1.Cell, name string, condition *metav1.Condition) bool {
	return cell.Spec.KubeconfigSecretRef == nil && (name == v1alpha1.ConditionConnected || name == v1alpha1.ConditionGuarded) &&
		(condition == nil || condition.Reason == v1alpha1.ReasonNoKubeconfig)
}
