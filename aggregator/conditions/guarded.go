package conditions

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// setGuardedCondition writes whether the clusters of all cells call the webhook for removals in the protector's namespace. A protector that
// was always guarded does not get this condition.
func setGuardedCondition(p *v1alpha1.PodProtector) {
	guarded := metav1.Condition{Type: v1alpha1.ConditionGuarded, ObservedGeneration: p.Generation}
	byCause, problems := map[v1alpha1.Exemption][]string{}, []string(nil)
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		if a := &cell.Aggregation; a.Exempt != "" {
			byCause[a.Exempt] = append(byCause[a.Exempt], cell.CellID)
		} else if a.ExemptProblem != "" {
			problems = append(problems, fmt.Sprintf("cell %s: %s", cell.CellID, a.ExemptProblem))
		}
	}
	switch {
	case len(byCause) > 0:
		guarded.Status, guarded.Reason = metav1.ConditionFalse, v1alpha1.ReasonNamespaceExempt
		guarded.Message = clusters.Truncate(exemptMessage(p.Namespace, byCause), maxMessageBytes)
	case len(problems) > 0:
		guarded.Status, guarded.Reason = metav1.ConditionUnknown, v1alpha1.ReasonConfigurationUnread
		guarded.Message = clusters.Truncate("Cannot determine whether removals in namespace "+p.Namespace+" are checked: "+
			strings.Join(problems, "; ")+".", maxMessageBytes)
	case meta.FindStatusCondition(p.Status.Conditions, guarded.Type) == nil:
		return
	default:
		guarded.Status, guarded.Reason = metav1.ConditionTrue, v1alpha1.ReasonNamespaceGuarded
		guarded.Message = "The clusters of all counted cells call the webhook for removals in namespace " + p.Namespace + "."
	}
	meta.SetStatusCondition(&p.Status.Conditions, guarded)
}

func exemptMessage(namespace string, byCause map[v1alpha1.Exemption][]string) string {
	var sentences []string
	for _, cause := range []v1alpha1.Exemption{v1alpha1.ExemptNoWebhook, v1alpha1.ExemptNamespaceSelector, v1alpha1.ExemptLabel, v1alpha1.ExemptNotLabeled} {
		cells := byCause[cause]
		if len(cells) == 0 {
			continue
		}
		why, remedy := webhookconfig.DescribeExemption(cause, namespace, strings.Join(cells, ", "))
		sentences = append(sentences, fmt.Sprintf("Removals in namespace %s are not checked in cell %s: %s. %s", namespace, strings.Join(cells, ", "), why, remedy))
	}
	return strings.Join(sentences, " ")
}
