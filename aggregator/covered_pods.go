package aggregator

import (
	"slices"
	"strings"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// coveredPods is the set of pods that a protector covers.
type coveredPods struct {
	coverage selectors.Coverage
	// rate is how long pod events are gathered for the protector, unless a pod that became ready shortens it.
	rate time.Duration
	pods map[*pod]struct{}
}

// has reports whether the protector covers a pod.
func (c *coveredPods) has(p *pod) bool {
	_, ok := c.pods[p]
	return ok
}

// Cover starts counting pods for a protector.
func (s *Snapshot) Cover(key types.NamespacedName, coverage selectors.Coverage, rate time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.covered[key]; m != nil && m.coverage.Equal(coverage) {
		m.rate = rate
		return
	}
	m := &coveredPods{coverage: coverage, rate: rate, pods: map[*pod]struct{}{}}
	matches := map[*labelSet]bool{} // each distinct set of labels is matched once
	for p := range s.byNamespace[unique.Make(key.Namespace)] {
		match, known := matches[p.labels]
		if !known {
			match = coverage.Covers(p.labels.toMap(s.labelBuffer))
			matches[p.labels] = match
		}
		if match {
			m.pods[p] = struct{}{}
		}
	}
	s.covered[key] = m
	s.index.Set(key, key.Namespace, coverage.Selector)
}

// Uncover stops counting pods for a protector.
func (s *Snapshot) Uncover(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index.Delete(key)
	delete(s.covered, key)
	s.nodes.releaseLabel(key)
}

// readyPodSpeedup is the factor by which a pod that became ready is counted sooner when a removal may be waiting for budget.
const readyPodSpeedup = 10

// notifyProtectorsOf enqueues the protectors of a changed pod. A pod that became ready adds budget: it is counted sooner for a
// protector that has none.
func (s *Snapshot) notifyProtectorsOf(p *pod, becameReady bool) {
	for _, key := range s.protectorsOf(p) {
		wait := s.covered[key].rate
		if becameReady && s.hasNoBudget(key) {
			wait /= readyPodSpeedup
		}
		s.notifyProtector(key, wait)
	}
}

// notifyMoved enqueues those of the protectors that have pods on nodes whose domain has changed.
func (s *Snapshot) notifyMoved(protectors []types.NamespacedName, nodes map[unique.Handle[string]]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range protectors {
		m := s.covered[key]
		if m == nil {
			continue
		}
		for p := range m.pods {
			if nodes[p.node] {
				s.notifyProtector(key, m.rate)
				break
			}
		}
	}
}

// protectorsOf returns the protectors of a pod in the order of their names, in which they are also written. The next call
// reuses the memory of the result.
func (s *Snapshot) protectorsOf(p *pod) []types.NamespacedName {
	labels := p.labels.toMap(s.labelBuffer)
	s.keyBuffer = s.index.Query(p.namespace.Value(), labels, s.keyBuffer[:0])
	s.keyBuffer = slices.DeleteFunc(s.keyBuffer, func(key types.NamespacedName) bool { return s.covered[key].coverage.Exempts(labels) })
	slices.SortFunc(s.keyBuffer, func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) })
	return s.keyBuffer
}

// relabel moves a pod from the protectors of its old labels to those of its new labels.
func (s *Snapshot) relabel(p *pod, labels map[string]string) {
	if p.labels != nil {
		s.notifyProtectorsOf(p, false)
		for _, key := range s.protectorsOf(p) {
			delete(s.covered[key].pods, p)
		}
		s.labels.release(p.labels)
	}
	p.labels = s.labels.intern(labels)
	for _, key := range s.protectorsOf(p) {
		s.covered[key].pods[p] = struct{}{}
	}
}
