// Package scope tells which pods of a cluster belong to a cell: all of them, those of some namespaces, or those that a
// selector chooses.
//
// It is pure: values in, values out.
package scope

import (
	"fmt"
	"maps"
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// Scope is the pods of a cell. It never changes, so goroutines may share it. The zero value has all pods.
type Scope struct {
	// namespaces is nil when the cell is not limited to some, and selector when it is not to labels.
	namespaces map[string]bool
	selector   *selectors.Selector
}

// Of reads a Cell's spec. When an error tells of a mistake the scope has no pods: a cell whose pods nobody knows must not
// count the pods of another.
func Of(spec *v1alpha1.CellSpec) (Scope, error) {
	s := Scope{}
	if len(spec.Namespaces) > 0 {
		s.namespaces = make(map[string]bool, len(spec.Namespaces))
		for _, namespace := range spec.Namespaces {
			s.namespaces[namespace] = true
		}
	}
	if spec.PodSelector != nil {
		selector, err := selectors.Compile(*spec.PodSelector)
		if err != nil {
			return Scope{selector: selectors.Nothing()}, fmt.Errorf("spec.podSelector: %w", err)
		}
		s.selector = selector
	}
	return s, nil
}

// Everything tells whether it has all pods of its cluster.
func (s Scope) Everything() bool { return s.namespaces == nil && s.selector == nil }

// Selects tells whether labels decide, so that a pod can come and go while it lives.
func (s Scope) Selects() bool { return s.selector != nil }

// HasNamespace tells whether pods of a namespace can belong to it.
func (s Scope) HasNamespace(namespace string) bool {
	return s.namespaces == nil || s.namespaces[namespace]
}

// Has tells whether a pod belongs to it.
func (s Scope) Has(namespace string, labels map[string]string) bool {
	return s.HasNamespace(namespace) && (s.selector == nil || s.selector.Matches(labels))
}

// Overlaps tells whether a pod of one cluster could belong to both. It is exact.
func (s Scope) Overlaps(o Scope) bool {
	return s.sharesNamespace(o) && s.labels().Overlaps(o.labels())
}

func (s Scope) sharesNamespace(o Scope) bool {
	if s.namespaces == nil || o.namespaces == nil {
		return true
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(s.namespaces)), o.HasNamespace)
}

func (s Scope) labels() *selectors.Selector {
	if s.selector == nil {
		return selectors.Everything()
	}
	return s.selector
}
