package reserve

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// coverageIndex indexes which protectors of a core cover a pod. It is safe for concurrent use.
type coverageIndex struct {
	mu sync.RWMutex
	// index and selected hold the protectors that select pods by labels, which is the same in every cell.
	index    *selectors.Index[types.NamespacedName]
	selected map[types.NamespacedName]selectors.Coverage
	// targeted holds the protectors that name a workload, by namespace and name.
	targeted map[string]map[string]targetCoverage
}

// targetCoverage is the coverage of a protector that names a workload: for each cell, what the aggregator of the cell has
// found there.
type targetCoverage struct {
	cells map[string]selectors.Coverage
	// unresolved applies in cells whose aggregator has not looked yet: all pods that the protector could mean.
	unresolved selectors.Coverage
	ref        v1alpha1.TargetRef
}

func (t targetCoverage) inCell(cell string) selectors.Coverage {
	if coverage, found := t.cells[cell]; found {
		return coverage
	}
	return t.unresolved
}

func newCoverageIndex() *coverageIndex {
	return &coverageIndex{
		index:    selectors.New[types.NamespacedName](),
		selected: map[types.NamespacedName]selectors.Coverage{}, targeted: map[string]map[string]targetCoverage{},
	}
}

// set records what a protector covers now.
func (c *coverageIndex) set(p *v1alpha1.PodProtector) {
	key := client.ObjectKeyFromObject(p)
	if removal.NamesWorkload(p) {
		now := targetCoverageOf(p)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.drop(key)
		if c.targeted[key.Namespace] == nil {
			c.targeted[key.Namespace] = map[string]targetCoverage{}
		}
		c.targeted[key.Namespace][key.Name] = now
		return
	}
	coverage := removal.CoverageIn(p, "") // the same in every cell
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropTargeted(key)
	c.index.Set(key, p.Namespace, coverage.Selector)
	c.selected[key] = coverage
}

func targetCoverageOf(p *v1alpha1.PodProtector) targetCoverage {
	t := targetCoverage{cells: map[string]selectors.Coverage{}, unresolved: removal.PossibleCoverage(p), ref: *p.Spec.TargetRef}
	for i := range p.Status.Cells {
		if cell := &p.Status.Cells[i]; removal.HasResolvedTarget(p, cell) {
			t.cells[cell.CellID] = removal.CoverageIn(p, cell.CellID)
		}
	}
	return t
}

// delete removes a protector.
func (c *coverageIndex) delete(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(key)
}

func (c *coverageIndex) drop(key types.NamespacedName) {
	c.index.Delete(key)
	delete(c.selected, key)
	c.dropTargeted(key)
}

func (c *coverageIndex) dropTargeted(key types.NamespacedName) {
	if delete(c.targeted[key.Namespace], key.Name); len(c.targeted[key.Namespace]) == 0 {
		delete(c.targeted, key.Namespace)
	}
}

// covering returns the protectors that cover a pod of a cell with the given labels.
func (c *coverageIndex) covering(cell, namespace string, labels map[string]string) []types.NamespacedName {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := slices.DeleteFunc(c.index.Query(namespace, labels, nil), func(key types.NamespacedName) bool {
		return c.selected[key].Exempts(labels)
	})
	for name, t := range c.targeted[namespace] {
		if t.inCell(cell).Covers(labels) {
			all = append(all, types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	return all
}

// coveringResolved is like covering, without the protectors that may cover the pod only because no aggregator has looked yet.
func (c *coverageIndex) coveringResolved(cell, namespace string, labels map[string]string) []types.NamespacedName {
	all := c.covering(cell, namespace, labels)
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.DeleteFunc(all, func(key types.NamespacedName) bool {
		of, targeted := c.targeted[key.Namespace][key.Name]
		_, found := of.cells[cell]
		return targeted && !found
	})
}

// findSameTarget returns the first other protector of the namespace, by name, that names the same workload.
func (c *coverageIndex) findSameTarget(key types.NamespacedName, ref v1alpha1.TargetRef) (name string, found bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(c.targeted[key.Namespace])) {
		if name != key.Name && c.targeted[key.Namespace][name].ref == ref {
			return name, true
		}
	}
	return "", false
}

// sameCoverage reports whether two states of a protector cover the same pods. Most updates change only the status. The
// generation cannot answer this: in a core that was restored from a backup, a generation can occur a second time.
func sameCoverage(a, b any) bool {
	p, ok := a.(*v1alpha1.PodProtector)
	q, okToo := b.(*v1alpha1.PodProtector)
	return ok && okToo && selectors.SameCoverage(&p.Spec, &q.Spec) && (p.Spec.TargetRef == nil || sameTargets(p, q))
}

func sameTargets(p, q *v1alpha1.PodProtector) bool {
	return len(p.Status.Cells) == len(q.Status.Cells) &&
		slices.EqualFunc(p.Status.Cells, q.Status.Cells, func(a, b v1alpha1.PodProtectorCell) bool {
			return a.CellID == b.CellID && a.Aggregation.CountedSpec == b.Aggregation.CountedSpec && a.Aggregation.Void == b.Aggregation.Void &&
				equality.Semantic.DeepEqual(a.Aggregation.Target, b.Aggregation.Target)
		})
}
