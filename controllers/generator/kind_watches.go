package generator

import (
	"context"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// statusDelay is how long changes of a status alone are gathered: a controller writes many while pods become ready.
const statusDelay = time.Second

// kindWatches are the watches that the generator starts when policies need them: of kinds that are not built in, and of what policies use
// besides workloads. They run until the controller stops.
type kindWatches struct {
	metadata metadata.Interface
	// namespace limits the kinds to one namespace; empty means all.
	namespace string

	mu        sync.Mutex
	kinds     map[schema.GroupKind]*kindWatch
	auxiliary map[schema.GroupVersionResource]*kindWatch
	// enqueue enqueues a source after a delay; nil until the controller runs.
	enqueue func(policy.Ref, time.Duration)
	// ctx ends with the controller, and with it the watches.
	ctx context.Context
	// changeHandler is called when an object changed that policies use, other than a workload.
	changeHandler func(namespace string)
}

func newKindWatches(client metadata.Interface, namespace string) *kindWatches {
	return &kindWatches{
		metadata: client, namespace: namespace, changeHandler: func(string) {},
		kinds: map[schema.GroupKind]*kindWatch{}, auxiliary: map[schema.GroupVersionResource]*kindWatch{},
	}
}

// source connects the watches of kinds that policies name to the controller's queue, for as long as the controller runs.
func (w *kindWatches) source() source.TypedSource[policy.Ref] {
	return source.TypedFunc[policy.Ref](func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[policy.Ref]) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ctx, w.enqueue = ctx, queue.AddAfter
		return nil
	})
}

// setChangeHandler sets the function that is called when an object changed that policies use, other than a workload of a built-in kind.
func (w *kindWatches) setChangeHandler(handle func(namespace string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changeHandler = handle
}

func (w *kindWatches) notifyChange(namespace string) {
	w.mu.Lock()
	handle := w.changeHandler
	w.mu.Unlock()
	handle(namespace)
}

// of returns the watch of a kind; nil if it is not watched.
func (w *kindWatches) of(kind schema.GroupKind) *kindWatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kinds[kind]
}

func (w *kindWatches) all() []schema.GroupVersionKind {
	w.mu.Lock()
	defer w.mu.Unlock()
	var kinds []schema.GroupVersionKind
	for _, watched := range w.kinds {
		kinds = append(kinds, watched.kind)
	}
	return kinds
}

// start watches a kind that is served, and ends the watch of another version of it.
func (w *kindWatches) start(kind schema.GroupVersionKind, resource schema.GroupVersionResource) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if watched := w.kinds[kind.GroupKind()]; watched != nil && watched.kind == kind {
		return nil
	} else if watched != nil {
		watched.stop()
	}
	if w.enqueue == nil {
		return errNotRunning
	}
	objects := w.metadata.Resource(resource).Namespace(w.namespace)
	started, err := startInformer(w.ctx, objects, kind, func(object *metav1.PartialObjectMetadata, isMetadata bool) {
		if !isMetadata { // the selector of a scale may be part of the status (rule 16)
			w.enqueue(policy.RefOf(kind.GroupKind(), object), statusDelay)
			return
		}
		w.enqueue(policy.RefOf(kind.GroupKind(), object), 0)
		w.notifyChange(object.Namespace)
	})
	if err != nil {
		return err
	}
	w.kinds[kind.GroupKind()] = started
	return nil
}

// watchAuxiliary watches a kind that policies use besides workloads.
func (w *kindWatches) watchAuxiliary(resource schema.GroupVersionResource, onChange func(*metav1.PartialObjectMetadata)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.auxiliary[resource] != nil {
		return nil
	}
	if w.enqueue == nil {
		return errNotRunning
	}
	started, err := startInformer(w.ctx, w.metadata.Resource(resource), schema.GroupVersionKind{}, func(object *metav1.PartialObjectMetadata, isMetadata bool) {
		if isMetadata {
			onChange(object)
		}
	})
	if err != nil {
		return err
	}
	w.auxiliary[resource] = started
	return nil
}

// stopUnserved ends the watch of a kind that is no longer served, and enqueues all its sources: they no longer exist.
func (w *kindWatches) stopUnserved(kind schema.GroupKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	watched := w.kinds[kind]
	if watched == nil {
		return
	}
	watched.stop()
	delete(w.kinds, kind)
	for _, object := range watched.informer.GetStore().List() {
		if object, ok := object.(*metav1.PartialObjectMetadata); ok {
			w.enqueue(policy.RefOf(kind, object), 0)
		}
	}
}

// get returns a source from the watch of its kind; isWatched is false if the kind is not watched or its watch has not synced.
func (w *kindWatches) get(ref policy.Ref) (object *metav1.PartialObjectMetadata, isWatched bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	watched := w.kinds[ref.GroupKind()]
	if watched == nil || !watched.informer.HasSynced() {
		return nil, false
	}
	stored, exists, _ := watched.informer.GetStore().GetByKey(ref.Key().String())
	if !exists {
		return nil, true
	}
	object, ok := stored.(*metav1.PartialObjectMetadata)
	return object, ok
}

// errNotRunning is temporary: the controllers of one manager start one after the other.
var errNotRunning = errors.New("the generator has not started to watch workloads yet")
