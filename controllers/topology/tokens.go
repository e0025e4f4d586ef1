package topology

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// renewToken renews the token of a Cell's kubeconfig if that is due. It returns the condition on that; isNeeded is false if there is nothing to
// renew, or if it is not time to look yet and nothing is known.
func (r *Reconciler) renewToken(ctx context.Context, cell *v1alpha1.Cell) (renewed metav1.Condition, isNeeded bool) {
	before := meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionTokenRenewed)
	if r.Renewer == nil || cell.Spec.KubeconfigSecretRef == nil && before == nil {
		return renewed, false
	}
	renewed = metav1.Condition{
		Type: v1alpha1.ConditionTokenRenewed, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNoExpiry, Message: "The kubeconfig has no token that expires.",
	}
	if cell.Spec.KubeconfigSecretRef == nil {
		return renewed, true
	}
	if !r.isRenewalDue(cell.Name) {
		if before == nil {
			return renewed, false
		}
		return *before, true
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	renewal := r.Renewer.Renew(ctx, *cell.Spec.KubeconfigSecretRef)
	expires := renewal.Expires.UTC().Format(time.RFC3339)
	switch {
	case renewal.Err != nil && renewal.Expires.IsZero():
		return renewed, false // the condition Connected explains the kubeconfig
	case renewal.Err != nil:
		renewed.Status, renewed.Reason = metav1.ConditionFalse, v1alpha1.ReasonRenewalFailed
		renewed.Message = fmt.Sprintf("The token of the kubeconfig expires at %s and cannot be renewed: %s", expires, clusters.Sentence(renewal.Err))
	case !renewal.Expires.IsZero():
		renewed.Reason = v1alpha1.ReasonRenewalPossible
		renewed.Message = fmt.Sprintf("The token of the kubeconfig expires at %s, and is renewed before.", expires)
	}
	return renewed, before != nil || !renewal.Expires.IsZero()
}

// isRenewalDue reports whether clusters.RenewalInterval has passed since it last returned true for a Cell.
func (r *Reconciler) isRenewalDue(cell string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	stored, now := r.cellStates[cell], r.Monotonic()
	if !stored.tokenChecked.IsZero() && now.Sub(stored.tokenChecked) < clusters.RenewalInterval {
		return false
	}
	stored.tokenChecked = now
	r.cellStates[cell] = stored
	return true
}
