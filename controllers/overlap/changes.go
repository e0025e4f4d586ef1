package overlap

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// changed tells whether a change of a protector is of any interest: of what it covers, or of our condition. A storm makes
// thousands of others.
func changed(old, now *v1alpha1.PodProtector) bool {
	return old.UID != now.UID || old.ResourceVersion == now.ResourceVersion ||
		!selectors.SameCoverage(&old.Spec, &now.Spec) || now.Spec.TargetRef != nil && !claimOf(old).equal(claimOf(now)) ||
		!equality.Semantic.DeepEqual(
			meta.FindStatusCondition(old.Status.Conditions, v1alpha1.ConditionOverlapping),
			meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionOverlapping))
}
