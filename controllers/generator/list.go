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
	if builtIn, ok := builtInKind(kind.GroupKind()); ok {
		if !slices.Contains(k.Watched, builtIn) {
			return nil, nil
		}
		return k.listBuiltIn(ctx, namespace, builtIn)
	}
	watched := k.watches.of(kind.GroupKind())
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
	list := empty.(client.ObjectList)
	if err := k.Cache.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	var objects []client.Object
	err = meta.EachListItem(list, func(item runtime.Object) error {
		objects = append(objects, item.(client.Object))
		return nil
	})
	return objects, err
}
