package removal

import (
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// NamesWorkload reports whether a protector names a workload, whose pods it covers. Other protectors select pods, the same in every cell.
func NamesWorkload(p *v1alpha1.PodProtector) bool {
	return p.Spec.TargetRef != nil && p.Spec.Selector == nil
}

// CoverageIn returns the coverage of a protector in a cell, for a removal. If the coverage is unknown, it is all pods that the
// protector may cover.
func CoverageIn(p *v1alpha1.PodProtector, cellID string) selectors.Coverage {
	if !NamesWorkload(p) {
		// A malformed selector may mean any pods. It covers all of them, and the protector denies their removal.
		coverage, _ := selectors.CoverageOf(&p.Spec, nil)
		return coverage
	}
	if cell := quota.CellOf(p, cellID); cell != nil && HasResolvedTarget(p, cell) {
		coverage, _ := selectors.CoverageOf(&p.Spec, cell.Aggregation.Target)
		return coverage
	}
	return PossibleCoverage(p)
}

// knownCoverage returns the coverage of a protector in a cell. known is false if it names a workload and no aggregator of now has resolved that. A change of
// the spec that selects the same pods leaves the coverage known.
func knownCoverage(p *v1alpha1.PodProtector, cellID string) (coverage selectors.Coverage, known bool) {
	cell := quota.CellOf(p, cellID)
	switch {
	case !NamesWorkload(p), cell != nil && HasResolvedTarget(p, cell):
		return CoverageIn(p, cellID), true
	case cell == nil, cell.Aggregation.Void, cell.Aggregation.Target == nil, cell.Aggregation.SelectedSpec != quota.SelectedSpec(&p.Spec):
		return selectors.Coverage{}, false
	}
	coverage, err := selectors.CoverageOf(&p.Spec, cell.Aggregation.Target)
	return coverage, err == nil
}

// HasResolvedTarget reports whether the aggregator of a cell has resolved the workload that a protector names.
func HasResolvedTarget(p *v1alpha1.PodProtector, cell *v1alpha1.PodProtectorCell) bool {
	return cell.Aggregation.CountedSpec == quota.CountedSpec(&p.Spec) && !cell.Aggregation.Void
}

// PossibleCoverage returns what a protector that names a workload may cover in a cell where no aggregator has resolved it: all pods that are
// not exempt.
func PossibleCoverage(p *v1alpha1.PodProtector) selectors.Coverage {
	// An empty target selector, which matches all pods, stands for the unknown target.
	coverage, _ := selectors.CoverageOf(&p.Spec, &v1alpha1.Target{})
	return coverage
}
