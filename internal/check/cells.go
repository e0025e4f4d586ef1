package check

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// cells is a finding for each Cell, or one that there are none.
func (c *Checker) cells(ctx context.Context) []Finding {
	list := &v1alpha1.CellList{}
	if err := c.Client.List(ctx, list); err != nil {
		return []Finding{{"Cells", fmt.Sprintf("cannot be listed: %v", err)}}
	}
	if len(list.Items) == 0 {
		return []Finding{{"Cells", "there are none, so that no pod is counted: join a worker by breakwater join, or name one in the chart's values"}}
	}
	var all []Finding
	for i := range list.Items {
		all = append(all, Finding{"Cell " + list.Items[i].Name, problemOf(&list.Items[i])})
	}
	return all
}

// problemOf is what the conditions of a Cell say that is wrong.
func problemOf(cell *v1alpha1.Cell) string {
	if !cell.DeletionTimestamp.IsZero() {
		return "is deleted, and not drained yet"
	}
	var problems []string
	for _, name := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionAggregationFresh, v1alpha1.ConditionConnected, v1alpha1.ConditionGuarded,
	} {
		switch condition := meta.FindStatusCondition(cell.Status.Conditions, name); {
		case isUnseen(cell, name, condition):
		case condition == nil:
			problems = append(problems, fmt.Sprintf("nobody has said yet whether it is %s: see that the aggregator and the topology controller run", name))
		case condition.Status != metav1.ConditionTrue:
			problems = append(problems, fmt.Sprintf("%s=%s (%s): %s", name, condition.Status, condition.Reason, condition.Message))
		}
	}
	if meta.IsStatusConditionTrue(cell.Status.Conditions, v1alpha1.ConditionOverlapping) {
		problems = append(problems, meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionOverlapping).Message)
	}
	return strings.Join(problems, "; ")
}

// isUnseen tells of a condition that only a look into the cluster gives that nobody can look: the Cell names no kubeconfig, and
// the topology controller was not told the way by a flag.
func isUnseen(cell *v1alpha1.Cell, name string, condition *metav1.Condition) bool {
	return cell.Spec.KubeconfigSecretRef == nil && (name == v1alpha1.ConditionConnected || name == v1alpha1.ConditionGuarded) &&
		(condition == nil || condition.Reason == v1alpha1.ReasonNoKubeconfig)
}
