package status

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// AboveExpected returns how many more pods are available than are expected, if that has lasted for longer than a rollout; otherwise 0. The floor
// of the protector may then be too low.
func AboveExpected(p *v1alpha1.PodProtector) int {
	if !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionExpectationBelowPods) {
		return 0
	}
	expected, known := quota.Expected(p)
	if !known {
		return 0 // the floor is unknown, too
	}
	return max(0, quota.Available(p)-expected)
}
