package generator

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func hasFloor(floor int32) func(*v1alpha1.PodProtector) bool {
	return func(p *v1alpha1.PodProtector) bool { return p.Spec.MinAvailable.IntVal == floor }
}

func hasTargetResolved(status metav1.ConditionStatus, reason string) func(*v1alpha1.PodProtector) bool {
	return func(p *v1alpha1.PodProtector) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved)
		return c != nil && c.Status == status && c.Reason == reason
	}
}

// isSourceFound reports whether the source exists, whatever its size.
func isSourceFound(p *v1alpha1.PodProtector) bool {
	return hasTargetResolved(metav1.ConditionTrue, v1alpha1.ReasonSourceFound)(p) || hasTargetResolved(metav1.ConditionTrue, v1alpha1.ReasonScaledToZero)(p)
}

func hasProtectorFinalizer(p *v1alpha1.PodProtector) bool {
	return slices.Contains(p.Finalizers, v1alpha1.FinalizerProtector)
}
