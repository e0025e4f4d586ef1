package review

import (
	"fmt"
	"slices"

	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
	"github.com/breakwater-k8s/breakwater/webhook/reserve"
)

// HasCell reports whether the webhook reviews removals of a cell.
func (p *Protection) HasCell(cell string) bool { return p.cells.has(cell) }

// CellConfig returns the client configuration of a cell. The pointer stays the same for as long as the connection does.
func (p *Protection) CellConfig(cell string) (*rest.Config, error) { return p.cells.Config(cell) }

// CellMetadata returns a metadata client for the cluster of a cell.
func (p *Protection) CellMetadata(cell string) (metadata.Interface, error) {
	return p.cells.metadata(cell)
}

// EachProtector calls visit with the newest seen state of each PodProtector of a namespace, or of all namespaces if
// namespace is empty, together with the name of its core cluster. It includes PodProtectors that were deleted without
// having been released, and shares. visit must neither keep nor change the object. unread are the core clusters whose PodProtectors have not
// been read yet.
func (p *Protection) EachProtector(namespace string, visit func(core string, of *v1alpha1.PodProtector)) (unread []string) {
	for _, core := range p.cores.All {
		if !core.Synced.Load() {
			unread = append(unread, core.Name)
			continue
		}
		for _, one := range core.States.InNamespace(namespace) {
			visit(core.Name, one)
		}
	}
	return unread
}

// CoresOf returns the names of the core clusters whose cell contains pods of a namespace with these labels: those that
// have the Cell or, for a cell that only a flag names, all. It returns an error while a core that it needs has not been
// read.
func (p *Protection) CoresOf(cell, namespace string, labels map[string]string) ([]string, error) {
	var with, all []string
	named := false
	for _, core := range p.cores.All {
		if core.Cells != nil && !core.Cells.HasSynced() {
			return nil, fmt.Errorf("the Cells of core cluster %q are not read yet", core.Name)
		}
		all = append(all, core.Name)
		if core.Cells == nil {
			continue
		}
		if member, ok := core.Cells.Cell(cell); ok {
			named = true
			if member.Scope.Has(namespace, labels) {
				with = append(with, core.Name)
			}
		}
	}
	if !named {
		with = all
	}
	for _, core := range p.cores.All {
		if slices.Contains(with, core.Name) && !core.Synced.Load() {
			return nil, fmt.Errorf("the PodProtectors of core cluster %q are not read yet", core.Name)
		}
	}
	return with, nil
}

// ProtectorsOf returns the protectors of the given core clusters that cover such pods of a cell. A protector whose
// workload no aggregator has found there yet covers no pod here. For a removal it covers all pods that it may mean.
func (p *Protection) ProtectorsOf(cores []string, cell, namespace string, labels map[string]string) []scheduling.Protector {
	var found []scheduling.Protector
	for _, core := range p.cores.All {
		if !slices.Contains(cores, core.Name) {
			continue
		}
		for _, key := range core.States.CoveringResolved(cell, namespace, labels) {
			if last := core.States.LastSeen(key); last != nil && last.Spec.ShareOf == nil {
				found = append(found, scheduling.Protector{
					Core: core.Name, Namespace: key.Namespace, Name: key.Name, Labels: last.Labels, Selector: selectorIn(cell, last),
					Spread: p.spreadOf(core, last, cell, namespace, labels),
				})
			}
		}
	}
	return found
}

// spreadOf returns what a protector requires of the scheduler of a cell. A protector that a second cell has not counted
// yet does not count as a protector of one cell. Otherwise pods that are created meanwhile would wait for domains that
// exist only in the other cell.
func (p *Protection) spreadOf(core *reserve.Core, of *v1alpha1.PodProtector, cell, namespace string, labels map[string]string) *scheduling.Spread {
	spread := scheduling.SpreadOf(of, cell)
	if spread == nil || !spread.SingleCell || spread.MinDomains == nil {
		return spread
	}
	if core.Cells == nil {
		for other := range p.cells.static {
			spread.SingleCell = spread.SingleCell && other == cell
		}
		return spread
	}
	for _, other := range core.Cells.Names() {
		member, _ := core.Cells.Cell(other)
		spread.SingleCell = spread.SingleCell && (other == cell || !member.Scope.Has(namespace, labels))
	}
	return spread
}

// selectorIn returns the selector by which a protector selects pods of a cell; nil when it is unknown.
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
