package overlap

import (
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// protectorCoverage is the coverage of a protector: the same in all cells, or, if it names a workload, per cell.
type protectorCoverage struct {
	everywhere *selectors.Coverage
	// cells has an entry for each cell in which a workload of that name was found.
	cells map[string]selectors.Coverage
}

// coverageOf returns the claim of a protector. Like the webhook, it lets a malformed protector cover everything that it may mean.
func coverageOf(p *v1alpha1.PodProtector) protectorCoverage {
	if p.Spec.TargetRef == nil || p.Spec.Selector != nil {
		coverage, _ := selectors.CoverageOf(&p.Spec, nil)
		return protectorCoverage{everywhere: &coverage}
	}
	c, counted := protectorCoverage{cells: map[string]selectors.Coverage{}}, quota.CountedSpec(&p.Spec)
	for i := range p.Status.Cells {
		a := &p.Status.Cells[i].Aggregation
		if a.CountedSpec == counted && a.Target != nil {
			c.cells[p.Status.Cells[i].CellID], _ = selectors.CoverageOf(&p.Spec, a.Target)
		}
	}
	return c
}

func (c protectorCoverage) equal(o protectorCoverage) bool {
	if (c.everywhere == nil) != (o.everywhere == nil) || len(c.cells) != len(o.cells) {
		return false
	}
	if c.everywhere != nil && !c.everywhere.Equal(*o.everywhere) {
		return false
	}
	for cell, coverage := range c.cells {
		if other, exists := o.cells[cell]; !exists || !coverage.Equal(other) {
			return false
		}
	}
	return true
}

// overlaps reports whether both claims could cover the same pod, in any cell.
func (c protectorCoverage) overlaps(o protectorCoverage) bool {
	switch {
	case c.everywhere != nil && o.everywhere != nil:
		return c.everywhere.Overlaps(*o.everywhere)
	case c.everywhere != nil:
		return o.overlaps(c)
	}
	for cell, coverage := range c.cells {
		other, exists := o.cells[cell]
		if o.everywhere != nil {
			other, exists = *o.everywhere, true
		}
		if exists && coverage.Overlaps(other) {
			return true
		}
	}
	return false
}
