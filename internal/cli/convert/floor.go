package convert

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// floor copies minAvailable or maxUnavailable, of which exactly one is set. Call it after copying expectedReplicas, which decides
// whether the floor depends on expected replicas. Kubernetes, OpenKruise and Breakwater round percentages in the same way.
func (r *reading) floor(spec *v1alpha1.PodProtectorSpec, minAvailable, maxUnavailable *intstr.IntOrString) bool {
	var ok bool
	if minAvailable != nil {
		if spec.MinAvailable, ok = r.pods("minAvailable", minAvailable); !ok {
			return false
		}
		if spec.MinAvailable.String() == "100%" {
			r.nothingToSpare("minAvailable 100%")
		}
	}
	if maxUnavailable != nil {
		if spec.MaxUnavailable, ok = r.pods("maxUnavailable", maxUnavailable); !ok {
			return false
		}
		if amount := spec.MaxUnavailable.String(); amount == "0" || amount == "0%" {
			r.nothingToSpare("maxUnavailable " + amount)
		}
	}
	if quota.NeedsExpected(spec) {
		r.differs(PercentageBase, "its floor is reckoned from what the workloads of its pods want in all cells together; where that cannot be found out, "+
			"every removal is refused until spec.expectedReplicas says it")
	}
	return true
}

func (r *reading) nothingToSpare(amount string) {
	r.differs(NothingToSpare, "%s leaves nothing to spare: no available pod may go while no more are available than expected, "+
		"so that a rollout needs a surge", amount)
}

// pods converts a number of pods or a percentage to the form that a PodProtector uses.
func (r *reading) pods(field string, given *intstr.IntOrString) (*intstr.IntOrString, bool) {
	if given.Type == intstr.Int {
		if given.IntVal < 0 {
			r.lost(Malformed, "its %s %d is below 0", field, given.IntVal)
		}
		return v1alpha1.Pods(given.IntVal), given.IntVal >= 0
	}
	digits, isPercentage := strings.CutSuffix(given.StrVal, "%")
	percent, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || !isPercentage || percent > 100 {
		r.lost(Malformed, "its %s %q is neither a number nor a percentage from 0%% to 100%%", field, given.StrVal)
		return nil, false
	}
	amount := intstr.FromString(strconv.FormatUint(percent, 10) + "%")
	return &amount, true
}
