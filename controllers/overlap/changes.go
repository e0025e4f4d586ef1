package overlap

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// changed tells whether a change of a protector is of any interest: of what it covers, or of our condition. A storm makes
// thousands of others.
func changed(old, now *v1alpha1.PodProtector) bool {
	return old.UID != now.UID || old.ResourceVersion == now.ResourceVersion ||
		!equality.Semantic.DeepEqual([]any{old.Spec.Selector, old.Spec.ExemptPodSelector}, []any{now.Spec.Selector, now.Spec.ExemptPodSelector}) ||
		!equality.Semantic.DeepEqual(
			meta.FindStatusCondition(old.Status.Conditions, v1alpha1.ConditionOverlapping),
			meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionOverlapping))
}
