package quota

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Floor returns the number of pods that must stay available over all cells. It is unknown while the base of percentages, or of
// maxUnavailable, is unknown. Both percentages are rounded up, as PodDisruptionBudgets and PodUnavailableBudgets do.
func Floor(p *v1alpha1.PodProtector) (floor int, known bool) {
	spec := &p.Spec
	if spec.ShareOf != nil && spec.ShareOf.FloorUnknown {
		return 0, false
	}
	if spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.Int {
		return spec.MinAvailable.IntValue(), true
	}
	expected, known := Expected(p)
	switch {
	case !known:
		return 0, false
	case spec.MinAvailable != nil:
		return resolveAmount(spec.MinAvailable, expected)
	case spec.MaxUnavailable != nil:
		unavailable, known := resolveAmount(spec.MaxUnavailable, expected)
		return max(0, expected-unavailable), known
	default:
		return 0, false
	}
}

// NeedsExpected reports whether the floor of a spec depends on the number of pods that the workloads of the cells want.
func NeedsExpected(spec *v1alpha1.PodProtectorSpec) bool {
	return spec.ExpectedReplicas == nil && UsesExpected(spec)
}

// UsesExpected reports whether the floor of a spec depends on a number of expected pods: that of spec.expectedReplicas, or of the workloads.
func UsesExpected(spec *v1alpha1.PodProtectorSpec) bool {
	return spec.MinAvailable == nil || spec.MinAvailable.Type != intstr.Int
}

// Expected returns the number of pods that should exist over all cells. It is known if there is a counted cell, and all counted cells
// were counted by the current spec. A sum over only some cells would be too low, and so would be the floor.
func Expected(p *v1alpha1.PodProtector) (pods int, known bool) {
	if p.Spec.ExpectedReplicas != nil {
		return int(*p.Spec.ExpectedReplicas), true
	}
	counted := CountedSpec(&p.Spec)
	for i := range p.Status.Cells {
		if p.Status.Cells[i].Discount == v1alpha1.DiscountCleared {
			continue // treat the cell as if it did not exist
		}
		a := &p.Status.Cells[i].Aggregation
		if a.Void || a.CountedSpec != counted || a.ExpectedReplicas == nil || *a.ExpectedReplicas < 0 {
			return 0, false
		}
		pods, known = pods+int(*a.ExpectedReplicas), true
	}
	return pods, known
}

// resolveAmount returns a number, or a percentage of a whole, rounded up. known is false for a malformed value.
func resolveAmount(amount *intstr.IntOrString, whole int) (pods int, known bool) {
	pods, err := intstr.GetScaledValueFromIntOrPercent(amount, whole, true)
	return pods, err == nil
}
