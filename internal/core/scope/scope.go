// Package scope determines which pods of a cluster belong to a cell: all of them, those of some namespaces, or those that a selector
// matches.
//
// It is pure.
package scope

import (
	"fmt"
	"maps"
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// Scope is the set of pods of a cell. It is immutable, so goroutines may share it. The zero value has all pods.
type Scope struct {
	// namespaces is nil if the cell is not limited to namespaces, and selector is nil if it is not limited by labels.
	namespaces map[string]bool
	selector   *selectors.Selector
}

// Of returns the scope that a Cell's spec defines. If it returns an error, the scope has no pods: a cell with an invalid scope must
// not count the pods of another cell.
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

// HasAllPods reports whether the scope has all pods of its cluster.
func (s Scope) HasAllPods() bool { return s.namespaces == nil && s.selector == nil }

// DependsOnLabels reports whether the scope depends on labels, so that a pod can join and leave it during its lifetime.
func (s Scope) DependsOnLabels() bool { return s.selector != nil }

// HasNamespace reports whether pods of a namespace can belong to the scope.
func (s Scope) HasNamespace(namespace string) bool {
	return s.namespaces == nil || s.namespaces[namespace]
}

// Has reports whether a pod belongs to the scope.
func (s Scope) Has(namespace string, labels map[string]string) bool {
	return s.HasNamespace(namespace) && (s.selector == nil || s.selector.Matches(labels))
}

// Overlaps reports whether a pod of one cluster could belong to both scopes. The result is exact.
func (s Scope) Overlaps(o Scope) bool {
	return s.sharesNamespace(o) && s.Selector().Overlaps(o.Selector())
}

func (s Scope) sharesNamespace(o Scope) bool {
	if s.namespaces == nil || o.namespaces == nil {
		return true
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(s.namespaces)), o.HasNamespace)
}

// Selector returns the selector of the pods in the namespaces of the scope.
func (s Scope) Selector() *selectors.Selector {
	if s.selector == nil {
		return selectors.Everything()
	}
	return s.selector
}
