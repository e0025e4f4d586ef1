package overlap

import (
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// claim is the coverage of a protector: the same in all cells, or, if it names a workload, per cell.
type claim struct {
	everywhere *selectors.Coverage
	// cells has an entry for each cell in which a workload of that name was found.
	cells map[string]selectors.Coverage
}

// claimOf returns the claim of a protector. Like the webhook, it lets a malformed protector cover everything that it may mean.
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

// overlaps reports whether both claims could cover the same pod, in any cell.
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
