package snapshot

import (
	"fmt"
	"sync"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/aggregator/modes"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
)

// Snapshot is the state of a cell's pods at one resourceVersion of their watch, and of the protectors that cover them. It is the store
// behind the stream's reflector and is safe for concurrent use. Its parts share one mutex, so that a count sees all of them at one version
// (rule 4(a)).
type Snapshot struct {
	// now is the wall clock, by which the age of pods is judged, and monotonic the monotonic clock. createdAt is when the snapshot was
	// created, on the latter.
	now, monotonic func() time.Time
	createdAt      time.Time
	// EventSettlement records the stream's events for the settlement modes other than Exact.
	EventSettlement *modes.EventSettlement
	// filter determines which pods of the stream belong to the snapshot.
	filter *streamFilter
	// listed is closed when the first list was received.
	listed chan struct{}
	// nodes returns in which domains the pods are (rule 12). It has its own lock, which is taken after mu.
	nodes *nodes

	mu         sync.Mutex
	versions   *snapshotVersions
	pods       *podSet
	removed    *removedPods
	protectors *protectorIndex
	notifier   *notifier
}

// New returns a snapshot without pods. It calls notifyProtector for the protectors of changed pods, with the time for which to gather
// their events, and onRewind when the cell's version went backwards. Neither may block.
func New(
	notifyProtector func(types.NamespacedName, time.Duration), onRewind func(error), now, monotonic func() time.Time,
) *Snapshot {
	s := &Snapshot{
		now:             now,
		monotonic:       monotonic,
		createdAt:       monotonic(),
		EventSettlement: modes.New(notifyProtector, now),
		listed:          make(chan struct{}),
		versions:        &snapshotVersions{onRewind: onRewind},
		protectors:      newProtectorIndex(),
	}
	s.filter = &streamFilter{eventSettlement: s.EventSettlement, mu: &s.mu}
	s.notifier = &notifier{
		protectors: s.protectors, notifyProtector: notifyProtector, hasNoBudget: func(types.NamespacedName) bool { return false },
	}
	s.removed = newRemovedPods(s.versions, monotonic)
	s.pods = newPodSet(s.removed, s.protectors, s.notifier, s.SinceCreation)
	nodesChanged := func(protectors []types.NamespacedName, nodes map[unique.Handle[string]]bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.notifier.nodesChanged(protectors, nodes)
	}
	s.nodes = newNodes(nodesChanged, func(key types.NamespacedName) { notifyProtector(key, 0) }, now)
	return s
}

// Configure sets which pods of the stream belong to the cell, and the function that reports whether a protector can admit no removal now. It must be
// called before the stream begins.
func (s *Snapshot) Configure(pods scope.Scope, hasNoBudget func(types.NamespacedName) bool) {
	s.filter.scope, s.notifier.hasNoBudget = pods, hasNoBudget
}

// Scope returns which pods of the stream belong to the cell.
func (s *Snapshot) Scope() scope.Scope { return s.filter.scope }

// Add handles an event of the watch.
func (s *Snapshot) Add(obj any) error {
	return s.event(obj, func(p *corev1.Pod) {
		if s.filter.slots.coversNamespace(p.Namespace) && s.filter.scope.Has(p.Namespace, p.Labels) {
			s.pods.put(strip(p), p.Labels)
		}
	})
}

// Update handles an event of the watch.
func (s *Snapshot) Update(obj any) error {
	return s.event(obj, func(p *corev1.Pod) {
		if !s.filter.slots.coversNamespace(p.Namespace) {
			return
		}
		hash := quota.HashUID(p.UID)
		if !s.filter.scope.Has(p.Namespace, p.Labels) {
			s.pods.removeAlive(hash)
			return
		}
		entered := s.filter.scope.DependsOnLabels() && s.pods.byHash[hash] == nil
		s.pods.put(strip(p), p.Labels)
		if entered && s.pods.byHash[hash] != nil {
			s.pods.byHash[hash].entered = true
		}
	})
}

// Delete handles an event of the watch.
func (s *Snapshot) Delete(obj any) error {
	return s.event(obj, func(p *corev1.Pod) {
		if s.filter.slots.coversNamespace(p.Namespace) && s.filter.scope.HasNamespace(p.Namespace) {
			s.pods.removeDeleted(quota.HashUID(p.UID))
		}
	})
}

func (s *Snapshot) event(obj any, apply func(*corev1.Pod)) error {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("the pod stream delivered a %T", obj)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.advance(p.ResourceVersion); err != nil {
		return err
	}
	apply(p)
	s.removed.checkReappeared()
	s.EventSettlement.Record(p)
	return nil
}

// Replace handles a list of stripped pods: the first, or one after a broken watch.
func (s *Snapshot) Replace(list []any, resourceVersion string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.versions.stream == 0
	if err := s.advance(resourceVersion); err != nil {
		return err
	}
	s.pods.listCount++
	clear(s.removed.reappeared) // pods that the list does not contain have ended
	labels := map[string]string{}
	for _, obj := range list {
		p, ok := obj.(*pod)
		if !ok {
			return fmt.Errorf("the pod stream listed a %T", obj)
		}
		if p != outsidePod && s.filter.slots.isListed(p.namespace) {
			s.pods.put(p, p.labels.ToMap(labels))
		}
	}
	s.pods.removeUnlisted(s.filter.scope.DependsOnLabels())
	s.removed.checkReappeared()
	s.filter.slots.recordList()
	if first && s.versions.stream > 0 {
		close(s.listed)
	}
	return nil
}

// UpdateResourceVersion handles a bookmark of the watch.
func (s *Snapshot) UpdateResourceVersion(resourceVersion string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// advance has reported a rewind when this returns; the reflector does not take an error here.
	_ = s.advance(resourceVersion)
	s.removed.checkReappeared()
}

// Resync does nothing: a snapshot repeats no events.
func (s *Snapshot) Resync() error { return nil }

// advance raises the version, and forgets what need no longer be known.
func (s *Snapshot) advance(resourceVersion string) error {
	if err := s.versions.advance(resourceVersion); err != nil {
		return err
	}
	s.removed.forget()
	return nil
}

// Size returns the number of pods and of protectors.
func (s *Snapshot) Size() (pods, protectors int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pods.byHash), len(s.protectors.covered)
}

// ForceDeletable returns the number of pods whose removal is admitted regardless of the floor.
func (s *Snapshot) ForceDeletable() (number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods.byHash {
		if p.facts.ForceDeletable() {
			number++
		}
	}
	return number
}

// Listed returns a channel that is closed when the first list was received.
func (s *Snapshot) Listed() <-chan struct{} { return s.listed }
