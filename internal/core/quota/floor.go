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

// Expected returns how many pods there should be over all cells, if that is known: when all cells that ever were counted
// are by the current spec, and there is one. What only some cells want would be too few, and the floor too low.
func Expected(p *v1alpha1.PodProtector) (pods int, known bool) {
	if p.Spec.ExpectedReplicas != nil {
		return int(*p.Spec.ExpectedReplicas), true
	}
	counted := CountedSpec(&p.Spec)
	for i := range p.Status.Cells {
		if p.Status.Cells[i].Discount == v1alpha1.DiscountCleared {
			continue // as if it were not there
		}
		a := &p.Status.Cells[i].Aggregation
		if a.Void || a.CountedSpec != counted || a.ExpectedReplicas == nil || *a.ExpectedReplicas < 0 {
			return 0, false
		}
		pods, known = pods+int(*a.ExpectedReplicas), true
	}
	return pods, known
}

// share is a number, or a percentage of a whole, rounded up. What is neither is not known.
func share(of *intstr.IntOrString, whole int) (pods int, known bool) {
	pods, err := intstr.GetScaledValueFromIntOrPercent(of, whole, true)
	return pods, err == nil
}
