package quota

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Floor returns the number of pods that must stay available over all cells. It is not known while percentages, or
// maxUnavailable, have nothing to be reckoned from. Both percentages are rounded up, as those of PodDisruptionBudgets and
// PodUnavailableBudgets are.
func Floor(p *v1alpha1.PodProtector) (floor int, known bool) {
	spec := &p.Spec
	if spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.Int {
		return spec.MinAvailable.IntValue(), true
	}
	expected, known := Expected(p)
	switch {
	case !known:
		return 0, false
	case spec.MinAvailable != nil:
		return share(spec.MinAvailable, expected)
	case spec.MaxUnavailable != nil:
		unavailable, known := share(spec.MaxUnavailable, expected)
		return max(0, expected-unavailable), known
	default:
		return 0, false
	}
}

// NeedsExpected tells whether the floor of a spec is reckoned from what the workloads of the cells want.
func NeedsExpected(spec *v1alpha1.PodProtectorSpec) bool {
	return spec.ExpectedReplicas == nil && (spec.MinAvailable == nil || spec.MinAvailable.Type != intstr.Int)
}

// Expected returns how many pods there should be over all cells, if that is known: in all cells that were counted by the
// current spec, of which there must be one.
func Expected(p *v1alpha1.PodProtector) (pods int, known bool) {
	if p.Spec.ExpectedReplicas != nil {
		return int(*p.Spec.ExpectedReplicas), true
	}
	counted := CountedSpec(&p.Spec)
	for i := range p.Status.Cells {
		a := &p.Status.Cells[i].Aggregation
		switch {
		case IsVoid(a):
			return 0, false
		case a.CountedSpec != counted:
		case a.ExpectedReplicas == nil:
			return 0, false
		default:
			pods, known = pods+int(*a.ExpectedReplicas), true
		}
	}
	return pods, known
}

// share is a number, or a percentage of a whole, rounded up. What is neither is not known.
func share(of *intstr.IntOrString, whole int) (pods int, known bool) {
	pods, err := intstr.GetScaledValueFromIntOrPercent(of, whole, true)
	return pods, err == nil
}
