package removal

import (
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// Names tells whether a protector names a workload, whose pods it covers; others select pods, the same in every cell.
func Names(p *v1alpha1.PodProtector) bool { return p.Spec.TargetRef != nil && p.Spec.Selector == nil }

// CoverageIn is what a protector covers in a cell, for a removal: of what is not known it means all that it may.
func CoverageIn(p *v1alpha1.PodProtector, cellID string) selectors.Coverage {
	if !Names(p) {
		// Of a malformed selector it is unknown which pods it means: it means all that it may, and refuses them.
		coverage, _ := selectors.CoverageOf(&p.Spec, nil)
		return coverage
	}
	if cell := quota.CellOf(p, cellID); cell != nil && HasLooked(p, cell) {
		coverage, _ := selectors.CoverageOf(&p.Spec, cell.Aggregation.Target)
		return coverage
	}
	return Anything(p)
}

// HasLooked tells whether the aggregator of a cell has looked for the workload that a protector names.
func HasLooked(p *v1alpha1.PodProtector, cell *v1alpha1.PodProtectorCell) bool {
	return cell.Aggregation.CountedSpec == quota.CountedSpec(&p.Spec) && !cell.Aggregation.Void
}

// Anything is what a protector that names a workload may cover in a cell where nobody has looked for it: whatever is not exempt.
func Anything(p *v1alpha1.PodProtector) selectors.Coverage {
	// A target that chooses all stands for one that nobody knows.
	coverage, _ := selectors.CoverageOf(&p.Spec, &v1alpha1.Target{})
	return coverage
}
