package aggregator

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// Snapshot is the state of a cell's pods at one resourceVersion of their watch, and of the protectors that cover them. It is the store
// behind the stream's reflector and is safe for concurrent use.
type Snapshot struct {
	// notifyProtector is called for the protectors of each pod in an event, with the time for which to gather their events; it must not block.
	notifyProtector func(key types.NamespacedName, wait time.Duration)
	// hasNoBudget reports whether a protector can admit no removal now; set before the stream begins. It must not block.
	hasNoBudget func(key types.NamespacedName) bool
	// onRewind is called when the cell's version went backwards; it ends the leadership.
	onRewind func(error)
	// now is the wall clock, by which the age of pods is judged, and monotonic the monotonic clock. began is when the snapshot was
	// created, on the latter.
	now, monotonic func() time.Time
	createdAt      time.Time
	// eventClock records the times of the stream's events.
	eventClock *eventClock
	// scope selects the pods of the stream that belong to the cell; set before the stream begins.
	scope scope.Scope
	// slots is the subset of them that the snapshot keeps; nil is all.
	slots *slotSubset

	// listed is closed when the first list was received.
	listed chan struct{}

	mu sync.Mutex
	// version is 0 until the first list.
	version uint64
	// listCount counts the lists.
	listCount   uint32
	pods        map[quota.UIDHash]*pod
	byNamespace map[unique.Handle[string]]map[*pod]struct{}
	labels      labelSets
	// removedPods holds the pods that will never be counted again; see bury.
	removedPods map[quota.UIDHash]removedPod
	// reappeared are the departed pods that the stream shows, with the versions at which they did not exist. The stream shows them from
	// before their end, or from another history of the cell.
	reappeared map[quota.UIDHash]uint64
	// terminating is since when the snapshot has shown pods terminating, on the monotonic clock.
	terminating map[quota.UIDHash]time.Time
	// liveListVersion is the version of the newest live list that counts used.
	liveListVersion uint64
	// nodes returns in which domains the pods are. It has its own lock, which is taken after this one.
	nodes *nodes

	index   *selectors.Index[types.NamespacedName]
	covered map[types.NamespacedName]*coveredPods
	// keyBuffer and read are memory that each query reuses.
	keyBuffer   []types.NamespacedName
	labelBuffer map[string]string
}

func newSnapshot(
	notifyProtector func(types.NamespacedName, time.Duration), onRewind func(error), now, monotonic func() time.Time,
) *Snapshot {
	s := &Snapshot{
		notifyProtector: notifyProtector,
		hasNoBudget:     func(types.NamespacedName) bool { return false },
		onRewind:        onRewind,
		now:             now,
		monotonic:       monotonic,
		createdAt:       monotonic(),
		eventClock:      newEventClock(notifyProtector, now),
		listed:          make(chan struct{}),
		pods:            map[quota.UIDHash]*pod{},
		byNamespace:     map[unique.Handle[string]]map[*pod]struct{}{},
		labels:          labelSets{},
		removedPods:     map[quota.UIDHash]removedPod{},
		reappeared:      map[quota.UIDHash]uint64{},
		terminating:     map[quota.UIDHash]time.Time{},
		index:           selectors.New[types.NamespacedName](),
		covered:         map[types.NamespacedName]*coveredPods{},
		labelBuffer:     map[string]string{},
	}
	s.nodes = newNodes(s.notifyMoved, func(key types.NamespacedName) { notifyProtector(key, 0) }, now)
	return s
}

// Add handles an event of the watch.
func (s *Snapshot) Add(obj any) error {
	return s.event(obj, func(p *corev1.Pod) {
		if s.coversNamespace(p.Namespace) && s.scope.Has(p.Namespace, p.Labels) {
			s.put(strip(p), p.Labels)
		}
	})
}

// Update handles an event of the watch.
func (s *Snapshot) Update(obj any) error {
	return s.event(obj, func(p *corev1.Pod) {
		if !s.coversNamespace(p.Namespace) {
			return
		}
		hash := quota.HashUID(p.UID)
		if !s.scope.Has(p.Namespace, p.Labels) {
			s.removeAlive(hash)
			return
		}
		entered := s.scope.DependsOnLabels() && s.pods[hash] == nil
		s.put(strip(p), p.Labels)
		if entered && s.pods[hash] != nil {
			s.pods[hash].entered = true
		}
	})
}

// Delete handles an event of the watch.
func (s *Snapshot) Delete(obj any) error {
	return s.event(obj, func(p *corev1.Pod) {
		if s.coversNamespace(p.Namespace) && s.scope.HasNamespace(p.Namespace) {
			s.removeDeleted(quota.HashUID(p.UID))
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
	s.checkReappeared()
	s.eventClock.record(p)
	return nil
}

// Replace handles a list of stripped pods: the first, or one after a broken watch.
func (s *Snapshot) Replace(list []any, resourceVersion string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.version == 0
	if err := s.advance(resourceVersion); err != nil {
		return err
	}
	s.listCount++
	clear(s.reappeared) // pods that the list does not contain have ended
	labels := map[string]string{}
	for _, obj := range list {
		p, ok := obj.(*pod)
		if !ok {
			return fmt.Errorf("the pod stream listed a %T", obj)
		}
		if p != outsidePod && s.isListed(p.namespace) {
			s.put(p, p.labels.toMap(labels))
		}
	}
	s.removeUnlisted()
	s.checkReappeared()
	s.recordList()
	if first && s.version > 0 {
		close(s.listed)
	}
	return nil
}

// removeUnlisted removes the pods that the last list did not contain. Their order is the order in which their protectors are written.
func (s *Snapshot) removeUnlisted() {
	var unlisted []quota.UIDHash
	for hash, p := range s.pods {
		if p.lastList != s.listCount {
			unlisted = append(unlisted, hash)
		}
	}
	slices.Sort(unlisted)
	for _, hash := range unlisted {
		if s.scope.DependsOnLabels() {
			s.removeAlive(hash) // it may live, with other labels
			continue
		}
		s.removeDeleted(hash)
	}
}

// UpdateResourceVersion handles a bookmark of the watch.
func (s *Snapshot) UpdateResourceVersion(resourceVersion string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// advance has reported a rewind when this returns; the reflector does not take an error here.
	_ = s.advance(resourceVersion)
	s.checkReappeared()
}

// Resync does nothing: a snapshot repeats no events.
func (s *Snapshot) Resync() error { return nil }

// advance raises the version. It never goes backwards: when the cell's own version does, as after a restore of its etcd, the snapshot is
// unusable.
func (s *Snapshot) advance(resourceVersion string) error {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("resourceVersion %q of the cell's pods is not a number", resourceVersion)
	}
	if version < s.version {
		err := fmt.Errorf("the version of the cell's pods went backwards, from %d to %d", s.version, version)
		s.onRewind(err)
		return err
	}
	s.version = version
	s.forgetRemovedPods()
	return nil
}

// put adds or updates a pod as it was seen, with these labels.
func (s *Snapshot) put(seen *pod, labels map[string]string) {
	if d, ok := s.removedPods[seen.hash]; ok {
		// This is expected until the stream has passed the pod's end. After that only another history of the cell explains it, in which
		// other pods may differ too.
		s.reappeared[seen.hash] = d.version
		return
	}
	p := s.pods[seen.hash]
	if p == nil {
		p = &pod{hash: seen.hash, namespace: seen.namespace}
		s.pods[p.hash] = p
		if s.byNamespace[p.namespace] == nil {
			s.byNamespace[p.namespace] = map[*pod]struct{}{}
		}
		s.byNamespace[p.namespace][p] = struct{}{}
	}
	wasReady := isReady(p)
	p.facts, p.owner, p.node, p.version, p.lastList = seen.facts, seen.owner, seen.node, seen.version, s.listCount
	p.seenAlive = max(p.seenAlive, seen.seenAlive)
	if _, known := s.terminating[p.hash]; p.facts.Terminating() && !known {
		s.terminating[p.hash] = s.monotonic()
	}
	if p.labels == nil || !p.labels.equal(labels) {
		s.relabel(p, labels)
	}
	s.notifyProtectorsOf(p, isReady(p) && !wasReady)
}

// removeDeleted removes a pod for good.
func (s *Snapshot) removeDeleted(hash quota.UIDHash) {
	s.recordRemoved(hash, s.version)
	delete(s.reappeared, hash)
	s.remove(hash)
}

func (s *Snapshot) remove(hash quota.UIDHash) {
	p := s.pods[hash]
	if p == nil {
		return
	}
	s.notifyProtectorsOf(p, false)
	for _, key := range s.protectorsOf(p) {
		delete(s.covered[key].pods, p)
	}
	delete(s.pods, hash)
	delete(s.terminating, hash)
	delete(s.byNamespace[p.namespace], p)
	if len(s.byNamespace[p.namespace]) == 0 {
		delete(s.byNamespace, p.namespace)
	}
	s.labels.release(p.labels)
}

// Size returns the number of pods and of protectors.
func (s *Snapshot) Size() (pods, protectors int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pods), len(s.covered)
}

// ForceDeletable returns the number of pods whose removal is admitted regardless of the floor.
func (s *Snapshot) ForceDeletable() (number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods {
		if p.facts.ForceDeletable() {
			number++
		}
	}
	return number
}

// Listed reports whether the first list was received.
func (s *Snapshot) Listed() bool {
	select {
	case <-s.listed:
		return true
	default:
		return false
	}
}
