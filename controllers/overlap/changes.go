package overlap

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// hasRelevantChange reports whether a change of a protector concerns its coverage, or the condition Overlapping. A storm causes thousands of other
// changes.
func hasRelevantChange(old, now *v1alpha1.PodProtector) bool {
	return old.UID != now.UID || old.ResourceVersion == now.ResourceVersion ||
		!selectors.SameCoverage(&old.Spec, &now.Spec) || now.Spec.TargetRef != nil && !coverageOf(old).equal(coverageOf(now)) ||
		!equality.Semantic.DeepEqual(
			meta.FindStatusCondition(old.Status.Conditions, v1alpha1.ConditionOverlapping),
			meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionOverlapping))
}
