package aggregator

import (
	"context"
	"fmt"
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
)

// workloads determines how many replicas the controllers of a cell's pods request, for any kind, by their scale subresource. It watches
// the metadata of the kinds that it was asked about, and reads a scale again when the generation of its object has changed.
type workloads struct {
	metadata metadata.Interface
	dynamic  dynamic.Interface
	mapper   meta.RESTMapper
	// startInformer runs an informer for as long as the leadership lasts.
	startInformer func(toolscache.SharedIndexInformer)
	// onChange is called for each workload that was added, changed or deleted; it must not block.
	onChange func(workloadName)

	mu    sync.Mutex
	kinds map[schema.GroupVersionResource]toolscache.SharedIndexInformer
	sizes map[types.UID]size
	// listCounts is how often each kind was listed.
	listCounts map[schema.GroupVersionResource]int
}

// size is the replicas that a workload requested at a generation, and the selector of its pods, if its scale reports one.
type size struct {
	generation int64
	replicas   int32
	selector   string
	// listCount is the number of lists of the kind when the scale was read. A restored cell issues a generation a second time.
	listCount int
}

const (
	// syncTimeout bounds the wait for the first list of a kind.
	syncTimeout = 10 * time.Second
	// maxOwnerChain bounds the number of controllers above a pod.
	maxOwnerChain = 8
)

// findTop finds the workload at the top of an owner, and how many replicas it requests. last is the previous result for the owner: the
// controller of an object never changes, so it is still known when the object no longer exists. A workload that no longer exists is
// succeeded by another one of its kind and name.
func (w *workloads) findTop(ctx context.Context, namespace string, bottom owner, last found) (found, error) {
	at := bottom
	for range maxOwnerChain {
		object, err := w.object(ctx, namespace, at, last.deleted)
		kindNotServed := meta.IsNoMatchError(err)
		if err != nil && !kindNotServed {
			return found{}, err
		}
		exists := object != nil && object.UID == at.uid
		switch {
		case !exists && at == bottom && last.workload != noOwner() && last.workload != bottom:
			at = last.workload // the ReplicaSet no longer exists, but its Deployment may
		case object == nil && at == last.workload:
			return found{workload: at, replicas: last.replicas, deleted: true, kindNotServed: kindNotServed}, nil
		case object == nil:
			return found{workload: at, deleted: true, kindNotServed: kindNotServed}, nil
		case controllerOf(object) != noOwner():
			at = controllerOf(object)
		default:
			at.uid = object.UID
			wanted, err := w.sizeOf(ctx, at, object)
			return found{workload: at, replicas: wanted.replicas}, err
		}
	}
	return found{}, fmt.Errorf("%s %s has more than %d controllers above it", bottom.kind, bottom.name, maxOwnerChain)
}

// object returns the metadata of the object of an owner's kind and name, which may have another UID; nil if there is none. The cache can
// show that an owner exists. Only the API server can show that it does not. knownGone reports that it has shown that already.
func (w *workloads) object(ctx context.Context, namespace string, o owner, knownDeleted bool) (*metav1.PartialObjectMetadata, error) {
	resource, err := w.resource(o)
	if err != nil {
		return nil, err
	}
	informer, err := w.informer(ctx, resource, o.groupKind())
	if err != nil {
		return nil, err
	}
	stored, isCached, _ := informer.GetStore().GetByKey(namespace + "/" + o.name)
	object, _ := stored.(*metav1.PartialObjectMetadata)
	if knownDeleted || isCached && (o.uid == "" || object.UID == o.uid) {
		return object, nil
	}
	live, err := w.metadata.Resource(resource).Namespace(namespace).Get(ctx, o.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s/%s: %w", o.kind, namespace, o.name, err)
	}
	return live, nil
}

func (w *workloads) resource(o owner) (schema.GroupVersionResource, error) {
	version, err := schema.ParseGroupVersion(o.apiVersion)
	if err != nil {
		return schema.GroupVersionResource{}, fmt.Errorf("owner %s %s: %w", o.kind, o.name, err)
	}
	mapping, err := w.mapper.RESTMapping(version.WithKind(o.kind).GroupKind(), version.Version)
	if err != nil {
		return schema.GroupVersionResource{}, fmt.Errorf("owner %s %s: %w", o.kind, o.name, err)
	}
	return mapping.Resource, nil
}

// sizeOf returns how many replicas a workload requests. It caches the result for the workload's generation until its kind is listed again.
// The scale may be of a later generation than the cache shows. It is read again when the cache shows that one.
func (w *workloads) sizeOf(ctx context.Context, o owner, object *metav1.PartialObjectMetadata) (size, error) {
	resource, err := w.resource(o)
	if err != nil {
		return size{}, err
	}
	w.mu.Lock()
	cached, isCached := w.sizes[o.uid]
	list := w.listCounts[resource]
	w.mu.Unlock()
	if isCached && cached.generation == object.Generation && cached.listCount == list {
		return cached, nil
	}
	scale, err := w.dynamic.Resource(resource).Namespace(object.Namespace).Get(ctx, o.name, metav1.GetOptions{}, "scale")
	if err != nil {
		return size{}, fmt.Errorf("get the scale of %s %s/%s: %w", o.kind, object.Namespace, o.name, err)
	}
	wanted, _, err := unstructured.NestedInt64(scale.Object, "spec", "replicas")
	if err != nil {
		return size{}, fmt.Errorf("scale of %s %s/%s: %w", o.kind, object.Namespace, o.name, err)
	}
	selector, _, err := unstructured.NestedString(scale.Object, "status", "selector")
	if err != nil {
		return size{}, fmt.Errorf("scale of %s %s/%s: %w", o.kind, object.Namespace, o.name, err)
	}
	now := size{object.Generation, int32(wanted), selector, list} //nolint:gosec // an int32 in every scale
	if selector == "" {
		return now, nil // its controller may set it later, in the same generation
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sizes[o.uid] = now
	return now, nil
}

// informer returns the informer of a kind, and starts it if needed. It waits for its first list.
func (w *workloads) informer(
	ctx context.Context, resource schema.GroupVersionResource, kind schema.GroupKind,
) (toolscache.SharedIndexInformer, error) {
	informer, err := w.informerOf(resource, kind)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("cannot list the %s of the cell: allow the aggregator to get, list and watch them", resource.GroupResource())
	}
	return informer, nil
}

func (w *workloads) informerOf(resource schema.GroupVersionResource, kind schema.GroupKind) (toolscache.SharedIndexInformer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if informer := w.kinds[resource]; informer != nil {
		return informer, nil
	}
	informer := toolscache.NewSharedIndexInformer(w.source(resource), &metav1.PartialObjectMetadata{}, 0, toolscache.Indexers{})
	if err := informer.SetTransform(stripMetadata); err != nil {
		return nil, err
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
			if ok && okToo && (before.UID != after.UID || before.Generation != after.Generation || w.isOutdated(resource, after.UID)) {
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
		return nil, err
	}
	w.kinds[resource] = informer
	w.startInformer(informer)
	return informer, nil
}

// source lists and watches the metadata of a kind. After a watch that broke off it lists all objects again, as newStream does: an API
// server whose etcd was restored continues the watch, and never shows what the restore has undone. The replicas that a workload requested
// in the lost history would be expected for ever.
func (w *workloads) source(resource schema.GroupVersionResource) *toolscache.ListWatch {
	kind, history := w.metadata.Resource(resource), &continuity{now: time.Now}
	limit := newMemoryLimit(resource.Resource, metadataLimitBytes)
	strip := func(whole *metav1.PartialObjectMetadata) { *whole = *stripped(whole) }
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			w.beginList(resource)
			return listMetadata(ctx, options, history, limit, kind.List, strip)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if startsWithList(options) {
				w.beginList(resource)
			}
			return history.watch(ctx, options, limit.wrapWatch(kind.Watch))
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

// stripMetadata keeps the identity of an object, its owners, and its generation.
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
