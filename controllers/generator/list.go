package generator

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// forEachSource calls visit for all cached sources of the kinds, in one namespace or in all. Kinds that are not watched have none. visit must not
// change the objects.
func (k *Kinds) forEachSource(ctx context.Context, namespace string, kinds []v1alpha1.WorkloadKind, visit func(policy.Ref, client.Object) error) error {
	for _, workloadKind := range kinds {
		kind := policy.KindOf(workloadKind)
		objects, err := k.listSources(ctx, namespace, kind)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if err := visit(policy.RefOf(kind.GroupKind(), object), object); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *Kinds) listSources(ctx context.Context, namespace string, kind schema.GroupVersionKind) ([]client.Object, error) {
	if builtIn, ok := k.builtInKind(kind.GroupKind()); ok {
		if !slices.Contains(k.Watched, builtIn) {
			return nil, nil
		}
		return k.listBuiltIn(ctx, namespace, builtIn)
	}
	k.mu.Lock()
	watched := k.kindWatches[kind.GroupKind()]
	k.mu.Unlock()
	if watched == nil {
		return nil, nil
	}
	var objects []client.Object
	for _, stored := range watched.informer.GetStore().List() {
		object, ok := stored.(*metav1.PartialObjectMetadata)
		if ok && (namespace == "" || object.Namespace == namespace) {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

func (k *Kinds) listBuiltIn(ctx context.Context, namespace string, kind schema.GroupVersionKind) ([]client.Object, error) {
	empty, err := k.Scheme.New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err != nil {
		return nil, err
	}
	list, ok := empty.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("list type of %s is not a client.ObjectList", kind.Kind)
	}
	if err := k.Cache.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	var objects []client.Object
	err = meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(client.Object); ok {
			objects = append(objects, object)
		}
		return nil
	})
	return objects, err
}

// watchedKinds returns all kinds that are watched.
func (k *Kinds) watchedKinds() []v1alpha1.WorkloadKind {
	var kinds []v1alpha1.WorkloadKind
	add := func(kind schema.GroupVersionKind) {
		kinds = append(kinds, v1alpha1.WorkloadKind{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind})
	}
	for _, kind := range k.Watched {
		add(kind)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, watched := range k.kindWatches {
		add(watched.kind)
	}
	return kinds
}

// watchNamespaces starts to watch the labels of namespaces.
func (k *Kinds) watchNamespaces() error {
	return k.watchAuxiliary(namespaceResource(), func(namespace *metav1.PartialObjectMetadata) {
		ctx := k.ctx
		_ = k.forEachSource(ctx, namespace.Name, k.watchedKinds(), func(ref policy.Ref, _ client.Object) error {
			k.enqueue(ref)
			return nil
		})
		k.notifyChange(namespace.Name)
	})
}
