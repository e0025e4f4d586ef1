package aggregator

import (
	"slices"
	"strings"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/selectorindex"
)

// membership is the pods that a protector covers.
type membership struct {
	selector *selectorindex.Selector
	// rate is how long pod events are gathered before the protector is told of them.
	rate time.Duration
	pods map[*pod]struct{}
}

// Cover counts pods for a protector from now on.
func (s *Snapshot) Cover(key types.NamespacedName, selector *selectorindex.Selector, rate time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.members[key]; m != nil && m.selector.Key() == selector.Key() {
		m.rate = rate
		return
	}
	m := &membership{selector: selector, rate: rate, pods: map[*pod]struct{}{}}
	matches := map[*labelSet]bool{} // pods that share their labels are looked at once
	for p := range s.byNamespace[unique.Make(key.Namespace)] {
		match, known := matches[p.labels]
		if !known {
			match = selector.Matches(p.labels.read(s.read))
			matches[p.labels] = match
		}
		if match {
			m.pods[p] = struct{}{}
		}
	}
	s.members[key] = m
	s.index.Set(key, key.Namespace, selector)
}

// Uncover ends that.
func (s *Snapshot) Uncover(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index.Delete(key)
	delete(s.members, key)
}

// announce tells which protectors a change of the pod is about.
func (s *Snapshot) announce(p *pod) {
	for _, key := range s.protectorsOf(p) {
		s.changed(key, s.members[key].rate)
	}
}

// protectorsOf returns the protectors of a pod in the order of their names, which is that in which they are written. They
// are in memory that the next call uses again.
func (s *Snapshot) protectorsOf(p *pod) []types.NamespacedName {
	s.found = s.index.Query(p.namespace.Value(), p.labels.read(s.read), s.found[:0])
	slices.SortFunc(s.found, func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) })
	return s.found
}

// relabel moves a pod between the protectors of its old and of its new labels.
func (s *Snapshot) relabel(p *pod, labels map[string]string) {
	if p.labels != nil {
		s.announce(p)
		for _, key := range s.protectorsOf(p) {
			delete(s.members[key].pods, p)
		}
		s.labels.release(p.labels)
	}
	p.labels = s.labels.intern(labels)
	for _, key := range s.protectorsOf(p) {
		s.members[key].pods[p] = struct{}{}
	}
}
