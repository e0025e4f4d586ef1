package generator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// kindWatch is a kind that is not built in, and its watch.
type kindWatch struct {
	kind     schema.GroupVersionKind
	informer toolscache.SharedIndexInformer
	stop     context.CancelFunc
}

// namespaceResource and definitions are the resources that are watched besides workloads, if policies need them.
func namespaceResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

func crdResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

// source connects the watches of kinds that policies name to the controller's queue, for as long as the controller runs.
func (k *Kinds) source() source.TypedSource[policy.Ref] {
	return source.TypedFunc[policy.Ref](func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[policy.Ref]) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.ctx, k.enqueue = ctx, func(ref policy.Ref) { queue.Add(ref) }
		return nil
	})
}

// setChangeHandler sets the function that is called when an object changed that policies use, other than a workload of a built-in kind.
func (k *Kinds) setChangeHandler(handle func(namespace string)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changeHandler = handle
}

func (k *Kinds) notifyChange(namespace string) {
	k.mu.Lock()
	handle := k.changeHandler
	k.mu.Unlock()
	handle(namespace)
}

// watchKind starts to watch a kind. If it returns no error, the kind is served and may be listed, though it may not have been listed yet.
func (k *Kinds) watchKind(ctx context.Context, kind schema.GroupVersionKind) error {
	if _, ok := k.builtInKind(kind.GroupKind()); ok {
		if !slices.Contains(k.Watched, kind) {
			return fmt.Errorf("the generator does not watch %s; add it to the flag --kinds", kind.Kind)
		}
		return nil
	}
	if err := k.watchAuxiliary(crdResource(), func(*metav1.PartialObjectMetadata) { k.notifyChange(metav1.NamespaceAll) }); err != nil {
		return err
	}
	mapping, err := k.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		k.stopUnserved(kind.GroupKind())
		return err
	}
	if _, err := k.Metadata.Resource(mapping.Resource).Namespace(k.Namespace).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		if apierrors.IsNotFound(err) {
			k.stopUnserved(kind.GroupKind())
		}
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if watched := k.kindWatches[kind.GroupKind()]; watched != nil && watched.kind == kind {
		return nil
	} else if watched != nil {
		watched.stop()
	}
	if k.enqueue == nil {
		return errNotRunning
	}
	started, err := k.startInformer(mapping.Resource, kind, k.Namespace, func(_, object *metav1.PartialObjectMetadata) {
		k.enqueue(policy.RefOf(kind.GroupKind(), object))
		k.notifyChange(object.Namespace)
	})
	if err != nil {
		return err
	}
	k.kindWatches[kind.GroupKind()] = started
	return nil
}

// errNotRunning is temporary: the controllers of one manager start one after the other.
var errNotRunning = errors.New("the generator has not started to watch workloads yet")

// watchAuxiliary watches a kind that policies use besides workloads.
func (k *Kinds) watchAuxiliary(resource schema.GroupVersionResource, onChange func(*metav1.PartialObjectMetadata)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.auxiliaryWatches[resource] != nil {
		return nil
	}
	if k.enqueue == nil {
		return errNotRunning
	}
	started, err := k.startInformer(resource, schema.GroupVersionKind{}, metav1.NamespaceAll, func(_, object *metav1.PartialObjectMetadata) { onChange(object) })
	if err != nil {
		return err
	}
	k.auxiliaryWatches[resource] = started
	return nil
}

// startInformer runs an informer of metadata that calls changed for each relevant change.
func (k *Kinds) startInformer(
	resource schema.GroupVersionResource, kind schema.GroupVersionKind, namespace string, onChange func(before, now *metav1.PartialObjectMetadata),
) (*kindWatch, error) {
	objects := k.Metadata.Resource(resource).Namespace(namespace)
	informer := toolscache.NewSharedIndexInformer(clusters.Retrying(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: objects.Watch,
	}), &metav1.PartialObjectMetadata{}, 0, toolscache.Indexers{})
	if err := informer.SetTransform(strip(stripMetadata(kind))); err != nil {
		return nil, err
	}
	handle := func(before, now any) {
		if deleted, ok := now.(toolscache.DeletedFinalStateUnknown); ok {
			now = deleted.Obj
		}
		old, _ := before.(*metav1.PartialObjectMetadata)
		if object, ok := now.(*metav1.PartialObjectMetadata); ok && (old == nil || hasMetadataChanged(old, object)) {
			onChange(old, object)
		}
	}
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { handle(nil, now) },
		UpdateFunc: handle,
		DeleteFunc: func(deleted any) { handle(nil, deleted) },
	})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(k.ctx)
	go informer.RunWithContext(ctx)
	return &kindWatch{kind: kind, informer: informer, stop: stop}, nil
}

// stopUnserved ends the watch of a kind that is no longer served, and enqueues all its sources: they no longer exist.
func (k *Kinds) stopUnserved(kind schema.GroupKind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	watched := k.kindWatches[kind]
	if watched == nil {
		return
	}
	watched.stop()
	delete(k.kindWatches, kind)
	for _, object := range watched.informer.GetStore().List() {
		if object, ok := object.(*metav1.PartialObjectMetadata); ok {
			k.enqueue(policy.RefOf(kind, object))
		}
	}
}

// ensureWatched watches the kind of a source whose protectors name it, even if no policy names it any more.
func (k *Kinds) ensureWatched(ctx context.Context, ref policy.Ref, protectors []*v1alpha1.PodProtector) error {
	if k.isBuiltIn(ref) || len(protectors) == 0 {
		return nil
	}
	k.mu.Lock()
	isWatched := k.kindWatches[ref.GroupKind()] != nil
	k.mu.Unlock()
	_, version, ok := policy.SourceOf(protectors[0])
	if isWatched || !ok || version == "" {
		return nil
	}
	err := k.watchKind(ctx, ref.GroupKind().WithVersion(version))
	if ignoreNotServed(err) != nil {
		return fmt.Errorf("watch %s: %w", ref.Kind, err)
	}
	return nil
}

// watchedMetadata returns a source from the watch of its kind; known is false if the kind is not watched or its watch has not synced.
func (k *Kinds) watchedMetadata(ref policy.Ref) (object *metav1.PartialObjectMetadata, isWatched bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	watched := k.kindWatches[ref.GroupKind()]
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

// namespaceLabels returns the labels of a namespace, from its watch or else from the API server.
func (k *Kinds) namespaceLabels(ctx context.Context, namespace string) (map[string]string, error) {
	k.mu.Lock()
	watched := k.auxiliaryWatches[namespaceResource()]
	k.mu.Unlock()
	if watched != nil && watched.informer.HasSynced() {
		stored, exists, _ := watched.informer.GetStore().GetByKey(namespace)
		if object, ok := stored.(*metav1.PartialObjectMetadata); exists && ok {
			return object.Labels, nil
		}
	}
	object, err := k.Metadata.Resource(namespaceResource()).Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get the labels of namespace %s: %w", namespace, err)
	}
	return object.Labels, nil
}

// isKindDeleted reports whether the whole kind of a source is being deleted.
func (k *Kinds) isKindDeleted(ctx context.Context, ref policy.Ref) (bool, error) {
	if k.isBuiltIn(ref) {
		return false, nil
	}
	_, resource, err := k.resourceOf(ref.GroupKind())
	if err != nil {
		return ignoreNotServed(err) == nil, ignoreNotServed(err)
	}
	return k.isResourceDeleted(ctx, resource)
}

// isResourceDeleted reports whether the CRD of a resource is being deleted, or no longer exists.
func (k *Kinds) isResourceDeleted(ctx context.Context, resource schema.GroupVersionResource) (bool, error) {
	definition, err := k.Metadata.Resource(crdResource()).Get(ctx, resource.GroupResource().String(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		// An aggregated API server has kinds without CRDs.
		_, err := k.Metadata.Resource(resource).Namespace(k.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	if err != nil {
		return false, fmt.Errorf("get the CustomResourceDefinition of %s: %w", resource.GroupResource(), err)
	}
	return definition.DeletionTimestamp != nil, nil
}
