package webhook

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// Knows tells whether a cell is one of those that are reviewed.
func (p *Protection) Knows(cell string) bool { return p.cells.known(cell) }

// CellConfig is how to reach the cluster of a cell: the same one as long as the connection is.
func (p *Protection) CellConfig(cell string) (*rest.Config, error) { return p.cells.config(cell) }

// CoresOf names the core clusters in whose cell pods of a namespace with these labels are: those that have the Cell or, for one that only a flag
// names, all. The error tells of what is not read yet.
func (p *Protection) CoresOf(cell, namespace string, labels map[string]string) ([]string, error) {
	var with, all []string
	told := false
	for _, core := range p.cores {
		if core.roster != nil && !core.roster.Read() {
			return nil, fmt.Errorf("the Cells of core cluster %q are not read yet", core.name)
		}
		all = append(all, core.name)
		if core.roster == nil {
			continue
		}
		if member, ok := core.roster.Member(cell); ok {
			told = true
			if member.Scope.Has(namespace, labels) {
				with = append(with, core.name)
			}
		}
	}
	if !told {
		with = all
	}
	for _, core := range p.cores {
		if slices.Contains(with, core.name) && !core.read.Load() {
			return nil, fmt.Errorf("the PodProtectors of core cluster %q are not read yet", core.name)
		}
	}
	return with, nil
}

// ProtectorsOf lists the protectors of core clusters that cover such pods of a cell. One whose workload nobody has found there yet covers none
// here, while for a removal it covers all that it may.
func (p *Protection) ProtectorsOf(cores []string, cell, namespace string, labels map[string]string) []scheduling.Protector {
	var found []scheduling.Protector
	for _, core := range p.cores {
		if !slices.Contains(cores, core.name) {
			continue
		}
		for _, key := range core.coverages.certain(cell, namespace, labels) {
			if last := core.lastSeen(key); last != nil {
				found = append(found, scheduling.Protector{
					Core: core.name, Namespace: key.Namespace, Name: key.Name, Labels: last.Labels, Selector: selectorIn(cell, last),
					Spread: p.spreadOf(core, last, cell, namespace, labels),
				})
			}
		}
	}
	return found
}

// spreadOf is what a protector asks of the scheduler of a cell. One that a second cell has not counted yet is not of one cell for that: pods that
// are made meanwhile would wait for domains which are in the other one.
func (p *Protection) spreadOf(core *core, of *v1alpha1.PodProtector, cell, namespace string, labels map[string]string) *scheduling.Spread {
	spread := scheduling.SpreadOf(of, cell)
	if spread == nil || !spread.Alone || spread.MinDomains == nil {
		return spread
	}
	if core.roster == nil {
		for other := range p.cells.named {
			spread.Alone = spread.Alone && other == cell
		}
		return spread
	}
	for _, other := range core.roster.Names() {
		member, _ := core.roster.Member(other)
		spread.Alone = spread.Alone && (other == cell || !member.Scope.Has(namespace, labels))
	}
	return spread
}

// certain is covering without what may be covered for all that is known.
func (c *coverages) certain(cell, namespace string, labels map[string]string) []types.NamespacedName {
	all := c.covering(cell, namespace, labels)
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.DeleteFunc(all, func(key types.NamespacedName) bool {
		of, targeted := c.targeted[key.Namespace][key.Name]
		_, found := of.cells[cell]
		return targeted && !found
	})
}

// lastSeen is the state of a protector that the watch has shown last; nil when it is gone.
func (c *core) lastSeen(key types.NamespacedName) *v1alpha1.PodProtector {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.known[key].last
}

// selectorIn is what a protector selects pods of a cell by; nil when that is not known.
func selectorIn(cell string, p *v1alpha1.PodProtector) *v1alpha1.PodSelector {
	var target *v1alpha1.Target
	if counted := quota.CellOf(p, cell); counted != nil {
		target = counted.Aggregation.Target
	}
	selector, err := selectors.PodSelectorOf(&p.Spec, target)
	if err != nil {
		return nil
	}
	return selector
}
