package scheduling

import (
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// Protector is a PodProtector that covers the pods of an object.
type Protector struct {
	// Core is the core cluster of the protector. Policies match only protectors of their own core.
	Core            string
	Namespace, Name string
	Labels          map[string]string
	// Selector selects the pods that the protector covers. It is nil if unknown.
	Selector *v1alpha1.PodSelector
	// Spread is the protector's request to the scheduler of the pods' cell. It is nil if there is none.
	Spread *Spread
}

// String returns the kind and name, for messages.
func (p *Protector) String() string { return "PodProtector " + p.Namespace + "/" + p.Name }

// Set finds the policies for an object among many. It is immutable, so goroutines may share it.
type Set struct {
	ordered []*Policy
	// byPods finds indexes into ordered by the labels of pods. byProtectors does so for policies that have only a protectorSelector.
	byPods, byProtectors *selectors.Index[int]
}

// NewSet returns a Set of policies, which may be in any order.
func NewSet(policies []*Policy) *Set {
	s := &Set{ordered: Order(policies), byPods: selectors.New[int](), byProtectors: selectors.New[int]()}
	for index, p := range s.ordered {
		switch {
		case p.pods != nil:
			s.byPods.Set(index, p.Namespace, p.pods)
		case p.protectors != nil:
			s.byProtectors.Set(index, p.Namespace, p.protectors)
		}
	}
	return s
}

// For returns the policies that apply to an object, in their order. The protectors are those that cover its pods.
func (s *Set) For(o *Object, namespaceLabels map[string]string, protectors []Protector) []*Policy {
	var buffer [64]int
	indexes := buffer[:0]
	for _, namespace := range [...]string{o.Namespace, ""} {
		indexes = s.byPods.Query(namespace, o.Labels, indexes)
		for i := range protectors {
			indexes = s.byProtectors.Query(namespace, protectors[i].Labels, indexes)
		}
	}
	slices.Sort(indexes)
	var found []*Policy
	for _, index := range slices.Compact(indexes) {
		if p := s.ordered[index]; p.Applies(o, namespaceLabels, protectors) {
			found = append(found, p)
		}
	}
	return found
}

// Applies reports whether the policy applies to an object. The protectors are those that cover its pods.
func (p *Policy) Applies(o *Object, namespaceLabels map[string]string, protectors []Protector) bool {
	switch {
	case p.pods == nil && p.protectors == nil:
		return false
	case p.Namespace != "" && p.Namespace != o.Namespace:
		return false
	case p.Namespace == "" && (p.namespaces == nil || !p.namespaces.Matches(namespaceLabels)):
		return false
	case p.pods != nil && !p.pods.Matches(o.Labels):
		return false
	}
	return p.targets(o) && (p.protectors == nil || slices.ContainsFunc(protectors, p.selectsProtector))
}

func (p *Policy) selectsProtector(protector Protector) bool {
	return protector.Core == p.Core && p.protectors.Matches(protector.Labels)
}

// targets reports whether the policy applies to objects of this kind and operation.
func (p *Policy) targets(o *Object) bool {
	switch {
	case o.isFixed():
		return false
	case o.isPod():
		return o.isNewPod() && (len(p.Spec.Targets) == 0 || slices.Contains(p.Spec.Targets, v1alpha1.TargetPods))
	case o.Update && p.Spec.TemplateUpdates != v1alpha1.TemplateUpdatesInject:
		return false
	}
	return slices.Contains(p.Spec.Targets, v1alpha1.TargetPodTemplates)
}
