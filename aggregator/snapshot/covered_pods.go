package snapshot

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
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

// protectorIndex finds the protectors of a pod by its labels, and the pods of a protector. A pod must be removed from it before its labels
// change, and added again after that. The mutex of the snapshot guards it.
type protectorIndex struct {
	index   *selectors.Index[types.NamespacedName]
	covered map[types.NamespacedName]*coveredPods
	// keyBuffer and labelBuffer are memory that each query reuses.
	keyBuffer   []types.NamespacedName
	labelBuffer map[string]string
}

func newProtectorIndex() *protectorIndex {
	return &protectorIndex{
		index:       selectors.New[types.NamespacedName](),
		covered:     map[types.NamespacedName]*coveredPods{},
		labelBuffer: map[string]string{},
	}
}

// cover adds a protector, or replaces its coverage. pods are all pods of its namespace.
func (x *protectorIndex) cover(key types.NamespacedName, coverage selectors.Coverage, rate time.Duration, pods map[*pod]struct{}) {
	if m := x.covered[key]; m != nil && m.coverage.Equal(coverage) {
		m.rate = rate
		return
	}
	m := &coveredPods{coverage: coverage, rate: rate, pods: map[*pod]struct{}{}}
	matches := map[*LabelSet]bool{} // each distinct set of labels is matched once
	for p := range pods {
		match, known := matches[p.labels]
		if !known {
			match = coverage.Covers(p.labels.ToMap(x.labelBuffer))
			matches[p.labels] = match
		}
		if match {
			m.pods[p] = struct{}{}
		}
	}
	x.covered[key] = m
	x.index.Set(key, key.Namespace, coverage.Selector)
}

// uncover removes a protector.
func (x *protectorIndex) uncover(key types.NamespacedName) {
	x.index.Delete(key)
	delete(x.covered, key)
}

// releaseSlots removes the protectors of some slots.
func (x *protectorIndex) releaseSlots(slots slot.Set) {
	for key := range x.covered {
		if slots.Has(slot.Of(key.Namespace)) {
			x.uncover(key)
		}
	}
}

// of returns the protectors of a pod in the order of their names, in which they are also written. The next call reuses the memory of the
// result.
func (x *protectorIndex) of(p *pod) []types.NamespacedName {
	labels := p.labels.ToMap(x.labelBuffer)
	x.keyBuffer = x.index.Query(p.namespace.Value(), labels, x.keyBuffer[:0])
	x.keyBuffer = slices.DeleteFunc(x.keyBuffer, func(key types.NamespacedName) bool { return x.covered[key].coverage.Exempts(labels) })
	slices.SortFunc(x.keyBuffer, func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) })
	return x.keyBuffer
}

// add adds a pod to the protectors that cover it.
func (x *protectorIndex) add(p *pod) {
	for _, key := range x.of(p) {
		x.covered[key].pods[p] = struct{}{}
	}
}

// remove removes a pod from the protectors that cover it.
func (x *protectorIndex) remove(p *pod) {
	for _, key := range x.of(p) {
		delete(x.covered[key].pods, p)
	}
}

// Cover starts counting pods for a protector.
func (s *Snapshot) Cover(key types.NamespacedName, coverage selectors.Coverage, rate time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.protectors.cover(key, coverage, rate, s.pods.inNamespace(key.Namespace))
}

// Uncover stops counting pods for a protector.
func (s *Snapshot) Uncover(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.protectors.uncover(key)
	s.nodes.releaseLabel(key)
}
