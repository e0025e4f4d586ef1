package overlap

import (
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// claim is what a protector covers: the same everywhere, or, where it names a workload, by cell.
type claim struct {
	everywhere *selectors.Coverage
	// cells has those where a workload of that name was found.
	cells map[string]selectors.Coverage
}

// claimOf is the claim of a protector. One that is malformed covers what it may mean, as the webhook has it.
func claimOf(p *v1alpha1.PodProtector) claim {
	if p.Spec.TargetRef == nil || p.Spec.Selector != nil {
		coverage, _ := selectors.CoverageOf(&p.Spec, nil)
		return claim{everywhere: &coverage}
	}
	c, counted := claim{cells: map[string]selectors.Coverage{}}, quota.CountedSpec(&p.Spec)
	for i := range p.Status.Cells {
		a := &p.Status.Cells[i].Aggregation
		if a.CountedSpec == counted && a.Target != nil {
			c.cells[p.Status.Cells[i].CellID], _ = selectors.CoverageOf(&p.Spec, a.Target)
		}
	}
	return c
}

func (c claim) equal(o claim) bool {
	if (c.everywhere == nil) != (o.everywhere == nil) || len(c.cells) != len(o.cells) {
		return false
	}
	if c.everywhere != nil && !c.everywhere.Equal(*o.everywhere) {
		return false
	}
	for cell, coverage := range c.cells {
		if other, there := o.cells[cell]; !there || !coverage.Equal(other) {
			return false
		}
	}
	return true
}

// overlaps tells whether some pod could be covered by both, in some cell.
func (c claim) overlaps(o claim) bool {
	switch {
	case c.everywhere != nil && o.everywhere != nil:
		return c.everywhere.Overlaps(*o.everywhere)
	case c.everywhere != nil:
		return o.overlaps(c)
	}
	for cell, coverage := range c.cells {
		other, there := o.cells[cell]
		if o.everywhere != nil {
			other, there = *o.everywhere, true
		}
		if there && coverage.Overlaps(other) {
			return true
		}
	}
	return false
}
