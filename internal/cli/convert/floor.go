package convert

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// copyFloor copies minAvailable or maxUnavailable, of which exactly one is set. Call it after copying expectedReplicas, which decides
// whether the floor depends on expected replicas. Kubernetes, OpenKruise and Breakwater round percentages in the same way.
func (r *conversion) copyFloor(spec *v1alpha1.PodProtectorSpec, minAvailable, maxUnavailable *intstr.IntOrString) bool {
	var ok bool
	if minAvailable != nil {
		if spec.MinAvailable, ok = r.podCount("minAvailable", minAvailable); !ok {
			return false
		}
		if spec.MinAvailable.String() == "100%" {
			r.warnNothingToSpare("minAvailable 100%")
		}
	}
	if maxUnavailable != nil {
		if spec.MaxUnavailable, ok = r.podCount("maxUnavailable", maxUnavailable); !ok {
			return false
		}
		if amount := spec.MaxUnavailable.String(); amount == "0" || amount == "0%" {
			r.warnNothingToSpare("maxUnavailable " + amount)
		}
	}
	if quota.NeedsExpected(spec) {
		r.warn(PercentageBase, "its floor is derived from the replicas of its pods' workloads in all cells together; if these are unknown, "+
			"every removal is denied until spec.expectedReplicas is set")
	}
	return true
}

func (r *conversion) warnNothingToSpare(amount string) {
	r.warn(NothingToSpare, "%s leaves no budget: no available pod may be removed while only the expected number is available, "+
		"so that a rollout needs a surge", amount)
}

// podCount converts a number of pods or a percentage to the form that a PodProtector uses.
func (r *conversion) podCount(field string, given *intstr.IntOrString) (*intstr.IntOrString, bool) {
	if given.Type == intstr.Int {
		if given.IntVal < 0 {
			r.reject(Malformed, "its %s %d is below 0", field, given.IntVal)
		}
		return v1alpha1.Pods(given.IntVal), given.IntVal >= 0
	}
	digits, isPercentage := strings.CutSuffix(given.StrVal, "%")
	percent, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || !isPercentage || percent > 100 {
		r.reject(Malformed, "its %s %q is neither a number nor a percentage from 0%% to 100%%", field, given.StrVal)
		return nil, false
	}
	amount := intstr.FromString(strconv.FormatUint(percent, 10) + "%")
	return &amount, true
}
