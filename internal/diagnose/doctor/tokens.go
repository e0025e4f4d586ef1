package doctor

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// checkTokens judges whether the tokens with which a core reaches the clusters of its Cells are renewed before they expire.
func checkTokens(core *Core) []Finding {
	f := reporter{core.where(), "tokens"}
	if core.Cells.Err != nil {
		return nil // checkCells says so
	}
	var found []Finding
	expiring := 0
	for i := range core.Cells.Value {
		cell := &core.Cells.Value[i]
		condition := meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionTokenRenewed)
		if condition == nil || condition.Reason == v1alpha1.ReasonNoExpiry {
			continue
		}
		expiring++
		if condition.Status != metav1.ConditionTrue {
			found = append(found, f.finding(Warning, "Cell "+cell.Name+": "+condition.Message,
				"Run breakwater join again before the token expires. It also grants what a renewal needs.", "token-expiring"))
		}
	}
	return f.orOK(found, "Tokens of Cells that expire: %d. All of them are renewed before.", expiring)
}
