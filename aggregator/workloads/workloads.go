package workloads

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/aggregator/stream"
	"github.com/breakwater-k8s/breakwater/internal/core/workload"
)

// workloads determines how many replicas the controllers of a cell's pods request, for any kind, by their scale subresource. It watches
// the metadata of the kinds that it was asked about, and reads a scale again when the state of its object has changed.
type workloads struct {
	metadata metadata.Interface
	dynamic  dynamic.Interface
	mapper   meta.RESTMapper
	// startInformer runs an informer for as long as the leadership lasts.
	startInformer func(toolscache.SharedIndexInformer)
	// onChange is called for each workload that was added, changed or deleted; it must not block.
	onChange func(workloadName)

	mu    sync.Mutex
	kinds map[schema.GroupVersionResource]watchedKind
	sizes map[types.UID]size
	// listCounts is how often each kind was listed.
	listCounts map[schema.GroupVersionResource]int
}

// size is the replicas that a workload requested at a state, and the selector of its pods, if its scale reports one.
type size struct {
	// state is that of stateOf.
	state string
	// hasScale is false if the kind has no scale subresource. The size then says nothing.
	hasScale bool
	replicas int32
	selector string
	// listCount is the number of lists of the kind when the scale was read. A restored cell issues a version a second time.
	listCount int
}

// watchedKind is a kind, and until when its first list is waited for.
type watchedKind struct {
	informer toolscache.SharedIndexInformer
	syncBy   time.Time
}

// errNotListed means that a kind could not be listed in time, mostly because the aggregator may not.
var errNotListed = errors.New("allow the aggregator to get, list and watch them")

const (
	// syncTimeout bounds the wait for the first list of a kind. It passes once: a kind that may not be listed must not delay each count.
	syncTimeout = 10 * time.Second
	// maxOwnerChain bounds the number of controllers above a pod.
	maxOwnerChain = 8
)

// servedKind is how the API server serves a kind.
type servedKind struct {
	resource schema.GroupVersionResource
	// isNamespaced is false for a kind of cluster scope. Its objects have no namespace, whatever the namespace of their dependents is.
	isNamespaced bool
}

// nameOf returns the name of an object of the kind that an object of a namespace refers to.
func (k servedKind) nameOf(namespace, name string) types.NamespacedName {
	if !k.isNamespaced {
		namespace = metav1.NamespaceNone
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// nameOf returns the name by which changes of an owner are announced, which objects of a namespace refer to. A kind that is not served counts as
// namespaced.
func (w *workloads) nameOf(o snapshot.Owner, namespace string) workloadName {
	kind, err := w.kindOf(o)
	if err != nil {
		kind.isNamespaced = true
	}
	return workloadName{o.GroupKind(), kind.nameOf(namespace, o.Name)}
}

// object returns the metadata of the object of an owner's kind and name, which may have another UID; nil if there is none. The cache can
// show that an owner exists. Only the API server can show that it does not. knownDeleted reports that it has shown that already.
func (w *workloads) object(ctx context.Context, namespace string, o snapshot.Owner, knownDeleted bool) (*metav1.PartialObjectMetadata, error) {
	kind, err := w.kindOf(o)
	if err != nil {
		return nil, err
	}
	informer, err := w.informer(ctx, kind.resource, o.GroupKind())
	if err != nil {
		return nil, err
	}
	name := kind.nameOf(namespace, o.Name)
	stored, isCached, _ := informer.GetStore().GetByKey(toolscache.NewObjectName(name.Namespace, name.Name).String())
	object, _ := stored.(*metav1.PartialObjectMetadata)
	if knownDeleted || isCached && (o.UID == "" || object.UID == o.UID) {
		return object, nil
	}
	live, err := w.metadata.Resource(kind.resource).Namespace(name.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, w.checkServed(ctx, kind.resource, o)
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", o.Kind, name, err)
	}
	return live, nil
}

// checkServed returns a NoKindMatchError unless the kind of an object that was not found is certainly served, and not being deleted: an API server
// answers the same for an object of a lost kind, which the mapper still knows, and deletes the objects of a CRD before the CRD itself (rule 13). A CRD
// is marked before that, so a live read observes it.
func (w *workloads) checkServed(ctx context.Context, resource schema.GroupVersionResource, o snapshot.Owner) error {
	if !strings.Contains(resource.Group, ".") {
		return nil // of Kubernetes itself
	}
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	crd, err := w.metadata.Resource(definitions).Get(ctx, resource.GroupResource().String(), metav1.GetOptions{})
	switch {
	case err == nil && crd.DeletionTimestamp == nil:
		return nil
	case err == nil, apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return &meta.NoKindMatchError{GroupKind: o.GroupKind(), SearchedVersions: []string{resource.Version}}
	default:
		return fmt.Errorf("get the CustomResourceDefinition of %s: %w", o.Kind, err)
	}
}

// kindOf returns how the kind of an owner is served.
func (w *workloads) kindOf(o snapshot.Owner) (servedKind, error) {
	version, err := schema.ParseGroupVersion(o.APIVersion)
	if err != nil {
		return servedKind{}, fmt.Errorf("owner %s %s: %w", o.Kind, o.Name, err)
	}
	mapping, err := w.mapper.RESTMapping(version.WithKind(o.Kind).GroupKind(), version.Version)
	if err != nil {
		return servedKind{}, fmt.Errorf("owner %s %s: %w", o.Kind, o.Name, err)
	}
	return servedKind{mapping.Resource, mapping.Scope.Name() == meta.RESTScopeNameNamespace}, nil
}

// sizeOf returns what the scale of a workload states. It caches the result for the state of the workload until its kind is listed again. The
// scale may be of a later state than the cache shows.
func (w *workloads) sizeOf(ctx context.Context, o snapshot.Owner, object *metav1.PartialObjectMetadata) (size, error) {
	kind, err := w.kindOf(o)
	if err != nil {
		return size{}, err
	}
	state := stateOf(o.GroupKind(), object)
	w.mu.Lock()
	cached, isCached := w.sizes[o.UID]
	list := w.listCounts[kind.resource]
	w.mu.Unlock()
	if isCached && cached.state == state && cached.listCount == list {
		return cached, nil
	}
	now, err := w.readSize(ctx, kind.resource, o, object.Namespace)
	if err != nil {
		return size{}, err
	}
	now.state, now.listCount = state, list
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sizes[o.UID] = now
	return now, nil
}

// stateOf identifies the state of a workload of which its scale is a function. The selector of a scale may be part of the status, which changes
// alone (rule 16).
func stateOf(kind schema.GroupKind, object *metav1.PartialObjectMetadata) string {
	if workload.SelectsOwnPods(kind) {
		return strconv.FormatInt(object.Generation, 10)
	}
	return object.ResourceVersion
}

// readSize reads the scale of a workload. It is an error if the object of its name is another one now.
func (w *workloads) readSize(ctx context.Context, resource schema.GroupVersionResource, o snapshot.Owner, namespace string) (size, error) {
	name := types.NamespacedName{Namespace: namespace, Name: o.Name}
	var object metav1.Object
	scale, err := w.dynamic.Resource(resource).Namespace(namespace).Get(ctx, o.Name, metav1.GetOptions{}, "scale")
	hasScale := !apierrors.IsNotFound(err)
	if object = scale; !hasScale {
		// An API server answers the same for an object that does not exist and for one whose kind has no scale subresource.
		object, err = w.metadata.Resource(resource).Namespace(namespace).Get(ctx, o.Name, metav1.GetOptions{})
	}
	if err != nil {
		return size{}, fmt.Errorf("get the scale of %s %s: %w", o.Kind, name, err)
	}
	if uid := object.GetUID(); uid != "" && o.UID != "" && uid != o.UID { // rule 16: the number of another object says nothing of this one
		return size{}, fmt.Errorf("%s %s was deleted and created again, and the watch does not show that yet", o.Kind, name)
	}
	if !hasScale {
		return size{}, nil
	}
	wanted, _, err := unstructured.NestedInt64(scale.Object, "spec", "replicas")
	if err != nil {
		return size{}, fmt.Errorf("scale of %s %s: %w", o.Kind, name, err)
	}
	selector, _, err := unstructured.NestedString(scale.Object, "status", "selector")
	if err != nil {
		return size{}, fmt.Errorf("scale of %s %s: %w", o.Kind, name, err)
	}
	return size{hasScale: true, replicas: int32(wanted), selector: selector}, nil //nolint:gosec // an int32 in every scale
}

// informer returns the informer of a kind, and starts it if needed. It waits for its first list. It returns errNotListed if there is none yet.
func (w *workloads) informer(
	ctx context.Context, resource schema.GroupVersionResource, kind schema.GroupKind,
) (toolscache.SharedIndexInformer, error) {
	watched, err := w.watchedKindOf(resource, kind)
	if err != nil || watched.informer.HasSynced() {
		return watched.informer, err
	}
	ctx, cancel := context.WithDeadline(ctx, watched.syncBy)
	defer cancel()
	if !toolscache.WaitForCacheSync(ctx.Done(), watched.informer.HasSynced) {
		return nil, fmt.Errorf("cannot list the %s of the cell: %w", resource.GroupResource(), errNotListed)
	}
	return watched.informer, nil
}

func (w *workloads) watchedKindOf(resource schema.GroupVersionResource, kind schema.GroupKind) (watchedKind, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if watched, ok := w.kinds[resource]; ok {
		return watched, nil
	}
	informer := toolscache.NewSharedIndexInformer(w.source(resource), &metav1.PartialObjectMetadata{}, 0, toolscache.Indexers{})
	if err := informer.SetTransform(stripMetadata); err != nil {
		return watchedKind{}, err
	}
	notify := func(object *metav1.PartialObjectMetadata) {
		w.onChange(workloadName{kind, types.NamespacedName{Namespace: object.Namespace, Name: object.Name}})
	}
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if object, ok := obj.(*metav1.PartialObjectMetadata); ok {
				notify(object)
			}
		},
		UpdateFunc: func(old, obj any) {
			before, ok := old.(*metav1.PartialObjectMetadata)
			after, okToo := obj.(*metav1.PartialObjectMetadata)
			if ok && okToo && (hasChanged(kind, before, after) || w.isOutdated(resource, after.UID)) {
				notify(after)
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if object, ok := obj.(*metav1.PartialObjectMetadata); ok {
				w.forget(object.UID)
				notify(object)
			}
		},
	})
	if err != nil {
		return watchedKind{}, err
	}
	watched := watchedKind{informer, time.Now().Add(syncTimeout)}
	w.kinds[resource] = watched
	w.startInformer(informer)
	return watched, nil
}

// hasChanged reports whether a workload may state another number of other pods, or has another owner.
func hasChanged(kind schema.GroupKind, before, after *metav1.PartialObjectMetadata) bool {
	return before.UID != after.UID || stateOf(kind, before) != stateOf(kind, after) || snapshot.Above(before) != snapshot.Above(after)
}

// source lists and watches the metadata of a kind. After a watch that broke off it lists all objects again, as Snapshot.Stream does: an API
// server whose etcd was restored continues the watch, and never shows what the restore has undone. The replicas that a workload requested
// in the lost history would be expected for ever.
func (w *workloads) source(resource schema.GroupVersionResource) *toolscache.ListWatch {
	kind, history := w.metadata.Resource(resource), &stream.Continuity{Now: time.Now}
	limit := stream.NewMemoryLimit(resource.Resource, stream.MetadataLimitBytes)
	strip := func(whole *metav1.PartialObjectMetadata) { *whole = *stripped(whole) }
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			w.beginList(resource)
			return stream.ListMetadata(ctx, options, history, limit, kind.List, strip)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if stream.StartsWithList(options) {
				w.beginList(resource)
			}
			return history.Watch(ctx, options, limit.WrapWatch(kind.Watch))
		},
	}
}

// beginList must be called before a kind is listed.
func (w *workloads) beginList(resource schema.GroupVersionResource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listCounts[resource]++
}

// isOutdated reports whether the size of a workload was read before the last list of its kind.
func (w *workloads) isOutdated(resource schema.GroupVersionResource, workload types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	cached, isCached := w.sizes[workload]
	return isCached && cached.listCount != w.listCounts[resource]
}

func (w *workloads) forget(workload types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sizes, workload)
}

// stripMetadata keeps the identity of an object, its owners, and its versions.
func stripMetadata(obj any) (any, error) {
	whole, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	return stripped(whole), nil
}

func stripped(whole *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: whole.Namespace, Name: whole.Name, UID: whole.UID, ResourceVersion: whole.ResourceVersion,
		Generation: whole.Generation, OwnerReferences: whole.OwnerReferences,
	}}
}

// newWorkloads returns the workloads of a cell, which are watched until ctx ends. onChange is called with each that changes; it must not block.
func newWorkloads(
	ctx context.Context, metadata metadata.Interface, dynamic dynamic.Interface, mapper meta.RESTMapper, onChange func(workloadName),
) *workloads {
	return &workloads{
		metadata: metadata, dynamic: dynamic, mapper: mapper, onChange: onChange,
		startInformer: func(informer toolscache.SharedIndexInformer) { go informer.RunWithContext(ctx) },
		kinds:         map[schema.GroupVersionResource]watchedKind{}, sizes: map[types.UID]size{},
		listCounts: map[schema.GroupVersionResource]int{},
	}
}
