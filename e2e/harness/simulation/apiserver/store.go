// Package apiserver simulates the API server and the etcd of one cluster, for the clients that our components use. It has a linearizable
// store with resourceVersions, compare-and-swap, watches and a compacted history. Its connections delay, lose, hold and cut messages. It
// is meant for the virtual time of testing/synctest.
package apiserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Event is one change of the store. The objects that it points to are immutable.
type Event struct {
	Version  uint64
	Kind     *Kind
	Type     watch.EventType
	Old, New client.Object
	At       time.Time
	// By is the connection that wrote; empty if the world made the change.
	By string

	encode, encodeMetadata sync.Once
	json, jsonMetadata     []byte
}

// encoded returns the event as a watch shows it, with the object or only its metadata. All watchers share the bytes.
func (e *Event) encoded(metadata bool) []byte {
	if metadata {
		e.encodeMetadata.Do(func() { e.jsonMetadata = encodeEvent(e.Type, metadataOf(e.New)) })
		return e.jsonMetadata
	}
	e.encode.Do(func() { e.json = encodeEvent(e.Type, e.New) })
	return e.json
}

func encodeEvent(kind watch.EventType, object any) []byte {
	raw, err := json.Marshal(struct {
		Type   watch.EventType `json:"type"`
		Object any             `json:"object"`
	}{kind, object})
	if err != nil {
		panic(fmt.Sprintf("apiserver: an object has no JSON: %v", err))
	}
	return append(raw, '\n')
}

// Store is the etcd of one cluster.
type Store struct {
	kinds map[string]*Kind
	// inProgress counts the requests and watches that have not ended.
	inProgress sync.WaitGroup
	// Committed is called with each change before any client sees it. It must not call the store.
	Committed func(*Event)
	// Traffic is called with each message when it arrives, on either side.
	Traffic func(format string, arguments ...any)
	// UIDSuffix makes the UIDs of objects differ from those of other stores, where that matters.
	UIDSuffix string

	mu      sync.Mutex
	version uint64
	objects map[string]map[types.NamespacedName]client.Object
	// history has all changes. Watches do not show those up to compacted.
	history   []*Event
	compacted uint64
	uids      int
	// changed is closed at the next change and then replaced.
	changed chan struct{}
	// restarts counts restores and restarts, each of which ends all watches.
	restarts int
	// stoppedUntil is when the API server runs again.
	stoppedUntil time.Time
}

// NewStore returns an empty store. Its versions start above 1, like those of a real cluster.
func NewStore() *Store {
	s := &Store{
		kinds: map[string]*Kind{}, objects: map[string]map[types.NamespacedName]client.Object{}, version: 100, changed: make(chan struct{}),
		Committed: func(*Event) {}, Traffic: func(string, ...any) {},
	}
	for _, k := range Kinds() {
		s.kinds[k.Resource] = &k
		s.objects[k.Resource] = map[types.NamespacedName]client.Object{}
	}
	return s
}

// Version returns the version of the last change.
func (s *Store) Version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Wait returns when no request or watch is in progress. All links must be healed or severed before.
func (s *Store) Wait() { s.inProgress.Wait() }

// Get returns a copy of an object.
func (s *Store) Get(resource string, key types.NamespacedName) (client.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, ok := s.objects[resource][key]
	if !ok {
		return nil, s.notFound(resource, key)
	}
	return clone(object), nil
}

// GetAt returns an object as a cache shows it that is behind: as it was at an earlier time. The caller must not change it. ok is false if it did not
// exist then.
func (s *Store) GetAt(resource string, key types.NamespacedName, at time.Time) (object client.Object, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.history {
		if e.At.After(at) {
			break
		}
		if e.Kind.Resource == resource && client.ObjectKeyFromObject(e.New) == key {
			object, ok = e.New, e.Type != watch.Deleted
		}
	}
	return object, ok
}

// List returns copies of the objects of a resource, sorted by name, and the version of the list. The namespace "" selects all.
func (s *Store) List(resource, namespace string) ([]client.Object, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(s.objects[resource], namespace), s.version
}

func sorted(objects map[types.NamespacedName]client.Object, namespace string) []client.Object {
	var all []client.Object
	for key, object := range objects {
		if namespace == "" || key.Namespace == namespace {
			all = append(all, clone(object))
		}
	}
	slices.SortFunc(all, func(a, b client.Object) int {
		return slices.Compare([]string{a.GetNamespace(), a.GetName()}, []string{b.GetNamespace(), b.GetName()})
	})
	return all
}

// Create adds an object and fills in the fields that an API server sets.
func (s *Store) Create(resource string, object client.Object, by string) (client.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	if _, ok := s.objects[resource][key]; ok {
		return nil, apierrors.NewAlreadyExists(s.group(resource), key.Name)
	}
	created := clone(object)
	s.uids++
	if created.GetUID() == "" {
		created.SetUID(types.UID(fmt.Sprintf("%s-%s-%d%s", resource, key.Name, s.uids, s.UIDSuffix)))
	}
	created.SetGeneration(1)
	created.SetCreationTimestamp(metav1Now())
	s.commit(resource, key, watch.Added, nil, created, by)
	return clone(created), nil
}

// stored returns the object itself if it has the given version; an empty version is any.
func (s *Store) stored(resource string, key types.NamespacedName, version string) (client.Object, error) {
	old, ok := s.objects[resource][key]
	if !ok {
		return nil, s.notFound(resource, key)
	}
	if version != "" && version != old.GetResourceVersion() {
		return nil, apierrors.NewConflict(s.group(resource), key.Name, fmt.Errorf("the object has been modified"))
	}
	return old, nil
}

// Update replaces an object by the result of change on a copy of it. An empty version is the newest; any other version that is not the
// stored one is a conflict. A change that changes nothing writes nothing.
func (s *Store) Update(
	resource string, key types.NamespacedName, version, by string, change func(client.Object) error,
) (client.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, updated, err := s.changedCopy(resource, key, version, change)
	if err != nil {
		return nil, err
	}
	if same(old, updated) {
		return clone(old), nil
	}
	if updated.GetDeletionTimestamp() != nil && len(updated.GetFinalizers()) == 0 && s.kinds[resource].Kind != "Pod" {
		// The event shows the object as it was stored, with its last finalizer.
		s.commit(resource, key, watch.Deleted, old, clone(old), by)
		return clone(updated), nil
	}
	s.commit(resource, key, watch.Modified, old, updated, by)
	return clone(updated), nil
}

// tryUpdate returns what Update would store, and stores nothing.
func (s *Store) tryUpdate(resource string, key types.NamespacedName, version string, change func(client.Object) error) (client.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, updated, err := s.changedCopy(resource, key, version, change)
	return updated, err
}

// changedCopy returns an object of the given version, and a changed copy of it.
func (s *Store) changedCopy(
	resource string, key types.NamespacedName, version string, change func(client.Object) error,
) (old, updated client.Object, err error) {
	if old, err = s.stored(resource, key, version); err != nil {
		return nil, nil, err
	}
	updated = clone(old)
	if err := change(updated); err != nil {
		return nil, nil, err
	}
	updated.SetResourceVersion(old.GetResourceVersion())
	updated.GetObjectKind().SetGroupVersionKind(old.GetObjectKind().GroupVersionKind())
	return old, updated, nil
}

// Delete removes an object. An object with finalizers begins to terminate.
func (s *Store) Delete(resource string, key types.NamespacedName, version, by string) (client.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.stored(resource, key, version)
	if err != nil {
		return nil, err
	}
	last := clone(old)
	if len(old.GetFinalizers()) == 0 {
		s.commit(resource, key, watch.Deleted, old, last, by)
		return clone(last), nil
	}
	if old.GetDeletionTimestamp() == nil {
		now := metav1Now()
		last.SetDeletionTimestamp(&now)
		last.SetGeneration(old.GetGeneration() + 1)
		s.commit(resource, key, watch.Modified, old, last, by)
	}
	return clone(last), nil
}

// Lose removes an object despite its finalizers, as damage to etcd or the manual removal of finalizers does. No client sees it terminate.
func (s *Store) Lose(resource string, key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.objects[resource][key]; ok {
		s.commit(resource, key, watch.Deleted, old, clone(old), "")
	}
}

// commit makes a change the newest. The caller must hold no other reference to updated.
func (s *Store) commit(resource string, key types.NamespacedName, kind watch.EventType, old, updated client.Object, by string) {
	s.version++
	updated.SetResourceVersion(strconv.FormatUint(s.version, 10))
	updated.GetObjectKind().SetGroupVersionKind(s.kinds[resource].GroupVersionKind)
	if kind == watch.Deleted {
		delete(s.objects[resource], key)
	} else {
		s.objects[resource][key] = updated
	}
	event := &Event{Version: s.version, Kind: s.kinds[resource], Type: kind, Old: old, New: updated, At: time.Now(), By: by}
	s.history = append(s.history, event)
	s.Committed(event)
	s.notifyWatchers()
}

func (s *Store) notifyWatchers() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Compact discards the history: watches from earlier versions have to list again.
func (s *Store) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = s.version
}

// Restart ends all watches, as a restart of the API server does.
func (s *Store) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restarts++
	s.notifyWatchers()
}

// Restore returns to the state at an earlier version, as from a backup of etcd, and continues at next. next is either that version, so
// that the versions since occur a second time, or a later one. The API server restarts and has no change of before. Restore first calls
// whenRestored, which must not call the store.
func (s *Store) Restore(version, next uint64, whenRestored func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	whenRestored()
	for resource := range s.objects {
		s.objects[resource] = s.at(resource, version)
	}
	s.history = slices.DeleteFunc(s.history, func(e *Event) bool { return e.Version > version })
	s.version, s.compacted = next, next
	s.restarts++
	s.notifyWatchers()
}

// Stop stops the API server for a while: requests that arrive fail, those in transit included, and all watches end. Answers that are in
// transit still arrive. Callers of the store, such as users, need no API server: what they write counts as written when it runs again.
func (s *Store) Stop(length time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stoppedUntil = time.Now().Add(length)
	s.restarts++
	s.notifyWatchers()
}

// IsStopped reports whether the API server is stopped.
func (s *Store) IsStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.stoppedUntil)
}

// at returns the state of a resource at a version.
func (s *Store) at(resource string, version uint64) map[types.NamespacedName]client.Object {
	objects := map[types.NamespacedName]client.Object{}
	for _, e := range s.history {
		if e.Version > version {
			break
		}
		if e.Kind.Resource != resource {
			continue
		}
		if key := client.ObjectKeyFromObject(e.New); e.Type == watch.Deleted {
			delete(objects, key)
		} else {
			objects[key] = e.New
		}
	}
	return objects
}

func (s *Store) group(resource string) schema.GroupResource {
	return schema.GroupResource{Group: s.kinds[resource].Group, Resource: resource}
}

func (s *Store) notFound(resource string, key types.NamespacedName) error {
	return apierrors.NewNotFound(s.group(resource), key.Name)
}
