package aggregator

import (
	"fmt"
	"strconv"
	"sync"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/breakwater-k8s/breakwater/internal/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/quota"
	"github.com/breakwater-k8s/breakwater/internal/selectorindex"
)

// pod is what a snapshot keeps of a pod.
type pod struct {
	hash      quota.UIDHash
	facts     podhealth.Facts
	namespace unique.Handle[string]
	labels    *labelSet
}

// Snapshot is the state of a cell's pods at one resourceVersion of their watch, and which protectors cover
// them. It is the store behind the stream's reflector and is safe for concurrent use.
type Snapshot struct {
	// changed is told the protectors of each pod that an event was about; it must not block.
	changed func(key types.NamespacedName, rate time.Duration)
	// rewound is told when the cell's version went backwards; it ends the term.
	rewound func(error)
	now     func() time.Time

	// listed is closed when the first list has come.
	listed chan struct{}

	mu sync.Mutex
	// version is 0 until the first list.
	version     uint64
	pods        map[quota.UIDHash]*pod
	byNamespace map[unique.Handle[string]]map[*pod]struct{}
	labels      labelSets
	// departed holds the pods that will never be counted again; see bury.
	departed map[quota.UIDHash]departure

	index   *selectorindex.Index[types.NamespacedName]
	members map[types.NamespacedName]*membership
	found   []types.NamespacedName
}

// membership is the pods that a protector covers.
type membership struct {
	selector *selectorindex.Selector
	// rate is how long pod events are gathered before the protector is told of them.
	rate time.Duration
	pods map[*pod]struct{}
}

var _ cache.ReflectorStore = (*Snapshot)(nil)

func newSnapshot(
	changed func(types.NamespacedName, time.Duration), rewound func(error), now func() time.Time,
) *Snapshot {
	return &Snapshot{
		changed:     changed,
		rewound:     rewound,
		now:         now,
		listed:      make(chan struct{}),
		pods:        map[quota.UIDHash]*pod{},
		byNamespace: map[unique.Handle[string]]map[*pod]struct{}{},
		labels:      labelSets{},
		departed:    map[quota.UIDHash]departure{},
		index:       selectorindex.New[types.NamespacedName](),
		members:     map[types.NamespacedName]*membership{},
	}
}

// Add takes in an event of the watch.
func (s *Snapshot) Add(obj any) error { return s.Update(obj) }

// Update takes in an event of the watch.
func (s *Snapshot) Update(obj any) error {
	return s.event(obj, func(p *corev1.Pod) { s.put(p) })
}

// Delete takes in an event of the watch.
func (s *Snapshot) Delete(obj any) error {
	return s.event(obj, func(p *corev1.Pod) { s.drop(quota.HashUID(p.UID)) })
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
	return nil
}

// Replace takes in a list: the first, or one after a broken watch.
func (s *Snapshot) Replace(list []any, resourceVersion string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.version == 0
	if err := s.advance(resourceVersion); err != nil {
		return err
	}
	listed := make(map[quota.UIDHash]struct{}, len(list))
	for _, obj := range list {
		p, ok := obj.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("the pod stream listed a %T", obj)
		}
		listed[quota.HashUID(p.UID)] = struct{}{}
		s.put(p)
	}
	for hash := range s.pods {
		if _, ok := listed[hash]; !ok {
			s.drop(hash)
		}
	}
	if first && s.version > 0 {
		close(s.listed)
	}
	return nil
}

// UpdateResourceVersion takes in a bookmark of the watch.
func (s *Snapshot) UpdateResourceVersion(resourceVersion string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A rewind has been reported when this returns; the reflector does not take an error here.
	_ = s.advance(resourceVersion)
}

// Resync does nothing: a snapshot repeats no events.
func (s *Snapshot) Resync() error { return nil }

// advance moves the version on. It never goes backwards: when the cell's own version does, as after a restore
// of its etcd, the snapshot is of no more use.
func (s *Snapshot) advance(resourceVersion string) error {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("resourceVersion %q of the cell's pods is not a number", resourceVersion)
	}
	if version < s.version {
		err := fmt.Errorf("the version of the cell's pods went backwards, from %d to %d", s.version, version)
		s.rewound(err)
		return err
	}
	s.version = version
	s.forgetDepartures()
	return nil
}

// put adds or updates a pod.
func (s *Snapshot) put(object *corev1.Pod) {
	hash := quota.HashUID(object.UID)
	if _, ok := s.departed[hash]; ok {
		return
	}
	p := s.pods[hash]
	if p == nil {
		p = &pod{hash: hash, namespace: unique.Make(object.Namespace)}
		s.pods[hash] = p
		if s.byNamespace[p.namespace] == nil {
			s.byNamespace[p.namespace] = map[*pod]struct{}{}
		}
		s.byNamespace[p.namespace][p] = struct{}{}
	}
	p.facts = podhealth.FactsOf(object)
	if p.labels == nil || !p.labels.equal(object.Labels) {
		s.relabel(p, object.Labels)
	}
	s.announce(p)
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

// drop takes a pod out for good.
func (s *Snapshot) drop(hash quota.UIDHash) {
	s.bury(hash, s.version)
	p := s.pods[hash]
	if p == nil {
		return
	}
	s.announce(p)
	for _, key := range s.protectorsOf(p) {
		delete(s.members[key].pods, p)
	}
	delete(s.pods, hash)
	delete(s.byNamespace[p.namespace], p)
	if len(s.byNamespace[p.namespace]) == 0 {
		delete(s.byNamespace, p.namespace)
	}
	s.labels.release(p.labels)
}

// announce tells which protectors a change of the pod is about.
func (s *Snapshot) announce(p *pod) {
	for _, key := range s.protectorsOf(p) {
		s.changed(key, s.members[key].rate)
	}
}

// protectorsOf returns the protectors of a pod, in memory that the next call uses again.
func (s *Snapshot) protectorsOf(p *pod) []types.NamespacedName {
	s.found = s.index.Query(p.namespace.Value(), p.labels.labels, s.found[:0])
	return s.found
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
	for p := range s.byNamespace[unique.Make(key.Namespace)] {
		if selector.Matches(p.labels.labels) {
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

// Size returns the number of pods and of protectors.
func (s *Snapshot) Size() (pods, protectors int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pods), len(s.members)
}

// Listed tells whether the first list has come.
func (s *Snapshot) Listed() bool {
	select {
	case <-s.listed:
		return true
	default:
		return false
	}
}
