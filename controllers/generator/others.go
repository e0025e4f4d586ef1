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

// other is a kind that is not built in, and its watch.
type other struct {
	kind     schema.GroupVersionKind
	informer toolscache.SharedIndexInformer
	stop     context.CancelFunc
}

// namespaces and definitions are the resources that are watched besides workloads, if policies need them.
func namespaces() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

func definitions() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

// source connects the watches of kinds that policies name to the controller's queue, for as long as the controller runs.
func (k *Kinds) source() source.TypedSource[policy.Ref] {
	return source.TypedFunc[policy.Ref](func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[policy.Ref]) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.ctx, k.starter = ctx, func(ref policy.Ref) { queue.Add(ref) }
		return nil
	})
}

// onChange sets the function that is called when an object changed that policies use, other than a workload of a built-in kind.
func (k *Kinds) onChange(tell func(namespace string)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changed = tell
}

func (k *Kinds) tellChange(namespace string) {
	k.mu.Lock()
	tell := k.changed
	k.mu.Unlock()
	tell(namespace)
}

// watch starts to watch a kind. If it returns no error, the kind is served and may be listed, though it may not have been listed yet.
func (k *Kinds) watch(ctx context.Context, kind schema.GroupVersionKind) error {
	if _, ok := k.builtIn(kind.GroupKind()); ok {
		if !slices.Contains(k.Watched, kind) {
			return fmt.Errorf("this generator does not watch %s: see its flag --kinds", kind.Kind)
		}
		return nil
	}
	if err := k.watchBeside(definitions(), func(*metav1.PartialObjectMetadata) { k.tellChange(metav1.NamespaceAll) }); err != nil {
		return err
	}
	mapping, err := k.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		k.forget(kind.GroupKind())
		return err
	}
	if _, err := k.Metadata.Resource(mapping.Resource).Namespace(k.Namespace).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		if apierrors.IsNotFound(err) {
			k.forget(kind.GroupKind())
		}
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.others[kind.GroupKind()]; known != nil && known.kind == kind {
		return nil
	} else if known != nil {
		known.stop()
	}
	if k.starter == nil {
		return errNotRunning
	}
	started, err := k.start(mapping.Resource, kind, k.Namespace, func(_, object *metav1.PartialObjectMetadata) {
		k.starter(policy.RefOf(kind.GroupKind(), object))
		k.tellChange(object.Namespace)
	})
	if err != nil {
		return err
	}
	k.others[kind.GroupKind()] = started
	return nil
}

// errNotRunning is temporary: the controllers of one manager start one after the other.
var errNotRunning = errors.New("the generator has not started to watch workloads yet")

// watchBeside watches a kind that policies use besides workloads.
func (k *Kinds) watchBeside(resource schema.GroupVersionResource, changed func(*metav1.PartialObjectMetadata)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.helpers[resource] != nil {
		return nil
	}
	if k.starter == nil {
		return errNotRunning
	}
	started, err := k.start(resource, schema.GroupVersionKind{}, metav1.NamespaceAll, func(_, object *metav1.PartialObjectMetadata) { changed(object) })
	if err != nil {
		return err
	}
	k.helpers[resource] = started
	return nil
}

// start runs an informer of metadata that calls changed for each relevant change.
func (k *Kinds) start(
	resource schema.GroupVersionResource, kind schema.GroupVersionKind, namespace string, changed func(before, now *metav1.PartialObjectMetadata),
) (*other, error) {
	objects := k.Metadata.Resource(resource).Namespace(namespace)
	informer := toolscache.NewSharedIndexInformer(clusters.Patient(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: objects.Watch,
	}), &metav1.PartialObjectMetadata{}, 0, toolscache.Indexers{})
	if err := informer.SetTransform(strip(stripMetadata(kind))); err != nil {
		return nil, err
	}
	tell := func(before, now any) {
		if gone, ok := now.(toolscache.DeletedFinalStateUnknown); ok {
			now = gone.Obj
		}
		old, _ := before.(*metav1.PartialObjectMetadata)
		if object, ok := now.(*metav1.PartialObjectMetadata); ok && (old == nil || metadataChanged(old, object)) {
			changed(old, object)
		}
	}
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { tell(nil, now) },
		UpdateFunc: tell,
		DeleteFunc: func(gone any) { tell(nil, gone) },
	})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(k.ctx)
	go informer.RunWithContext(ctx)
	return &other{kind: kind, informer: informer, stop: stop}, nil
}

// forget ends the watch of a kind that is no longer served, and enqueues all its sources: they no longer exist.
func (k *Kinds) forget(kind schema.GroupKind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.others[kind]
	if known == nil {
		return
	}
	known.stop()
	delete(k.others, kind)
	for _, object := range known.informer.GetStore().List() {
		if object, ok := object.(*metav1.PartialObjectMetadata); ok {
			k.starter(policy.RefOf(kind, object))
		}
	}
}

// learn watches the kind of a source whose protectors name it, even if no policy names it any more.
func (k *Kinds) learn(ctx context.Context, ref policy.Ref, protectors []*v1alpha1.PodProtector) error {
	if k.isBuiltIn(ref) || len(protectors) == 0 {
		return nil
	}
	k.mu.Lock()
	known := k.others[ref.GroupKind()] != nil
	k.mu.Unlock()
	_, version, ok := policy.SourceOf(protectors[0])
	if known || !ok || version == "" {
		return nil
	}
	err := k.watch(ctx, ref.GroupKind().WithVersion(version))
	if ignoreUnserved(err) != nil {
		return fmt.Errorf("watch %s: %w", ref.Kind, err)
	}
	return nil
}

// watchedMetadata returns a source from the watch of its kind; known is false if the kind is not watched or its watch has not synced.
func (k *Kinds) watchedMetadata(ref policy.Ref) (object *metav1.PartialObjectMetadata, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	watched := k.others[ref.GroupKind()]
	if watched == nil || !watched.informer.HasSynced() {
		return nil, false
	}
	stored, there, _ := watched.informer.GetStore().GetByKey(ref.Key().String())
	if !there {
		return nil, true
	}
	object, ok := stored.(*metav1.PartialObjectMetadata)
	return object, ok
}

// namespaceLabels returns the labels of a namespace, from its watch or else from the API server.
func (k *Kinds) namespaceLabels(ctx context.Context, namespace string) (map[string]string, error) {
	k.mu.Lock()
	watched := k.helpers[namespaces()]
	k.mu.Unlock()
	if watched != nil && watched.informer.HasSynced() {
		stored, there, _ := watched.informer.GetStore().GetByKey(namespace)
		if object, ok := stored.(*metav1.PartialObjectMetadata); there && ok {
			return object.Labels, nil
		}
	}
	object, err := k.Metadata.Resource(namespaces()).Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get the labels of namespace %s: %w", namespace, err)
	}
	return object.Labels, nil
}

// isKindGoing reports whether the whole kind of a source is being deleted.
func (k *Kinds) isKindGoing(ctx context.Context, ref policy.Ref) (bool, error) {
	if k.isBuiltIn(ref) {
		return false, nil
	}
	_, resource, err := k.served(ref.GroupKind())
	if err != nil {
		return ignoreUnserved(err) == nil, ignoreUnserved(err)
	}
	return k.isGoing(ctx, resource)
}

// isGoing reports whether the CRD of a resource is being deleted, or no longer exists.
func (k *Kinds) isGoing(ctx context.Context, resource schema.GroupVersionResource) (bool, error) {
	definition, err := k.Metadata.Resource(definitions()).Get(ctx, resource.GroupResource().String(), metav1.GetOptions{})
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
