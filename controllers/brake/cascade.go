package brake

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// cascadeCause returns why the deletion of an object is part of a cascade; empty if it is not. A namespace or an owner is marked or removed
// before its dependents are deleted, so a live read observes that.
func (b *Brake) cascadeCause(ctx context.Context, request brake.Request, limits brake.Limits) (cause string, err error) {
	if !request.MayCascade(limits) {
		return "", nil
	}
	if request.Cascade != "" {
		return request.Cascade, nil
	}
	namespace := clusters.EmptyNamespace()
	err = b.Live.Get(ctx, client.ObjectKey{Name: request.Protector.Namespace}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("get namespace %s: %w", request.Protector.Namespace, err)
	}
	isDeleted := apierrors.IsNotFound(err) || namespace.DeletionTimestamp != nil
	return brake.CascadeOf(request, isDeleted, func(owner metav1.OwnerReference) (string, error) {
		return b.ownerDeletionCause(ctx, request.Deleted.GetNamespace(), owner)
	})
}

// ownerDeletionCause returns why an owner counts as deleted; empty if it exists. An owner that cannot be read may have been deleted: missing
// information must not lower a floor.
func (b *Brake) ownerDeletionCause(ctx context.Context, namespace string, owner metav1.OwnerReference) (cause string, err error) {
	name := fmt.Sprintf("its owner %s %q", owner.Kind, owner.Name)
	kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
	mapping, err := b.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return name + " is of a kind that the API server no longer serves", nil
	}
	if err != nil {
		return "", fmt.Errorf("find the resource of %s: %w", kind, err)
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	key := client.ObjectKey{Namespace: namespace, Name: owner.Name}
	switch {
	case mapping.Scope.Name() == meta.RESTScopeNameRoot:
		key.Namespace = ""
	case namespace == "": // a cluster-scoped object can have only cluster-scoped owners
		return name + " cannot be found", nil
	}
	err = b.Live.Get(ctx, key, object)
	switch {
	case err == nil && object.UID == owner.UID && object.DeletionTimestamp == nil:
		return "", nil
	case err == nil, apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return name + " was deleted", nil
	case apierrors.IsForbidden(err):
		return b.kindDeletionCause(ctx, name, mapping.Resource)
	default:
		return "", fmt.Errorf("get %s: %w", name, err)
	}
}

// kindDeletionCause returns why an owner that the generator may not get counts as deleted: its kind is being deleted, or its state is unknown.
func (b *Brake) kindDeletionCause(ctx context.Context, owner string, resource schema.GroupVersionResource) (string, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	name := resource.GroupResource().String()
	err := b.Live.Get(ctx, client.ObjectKey{Name: name}, crd)
	if err == nil && crd.DeletionTimestamp != nil {
		return fmt.Sprintf("the CustomResourceDefinition %s of %s is being deleted", name, owner), nil
	}
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("get the CustomResourceDefinition %s: %w", name, err)
	}
	return fmt.Sprintf("%s may have been deleted (the generator may not get %s: list it in generator.ownerKinds of the chart)", owner, name), nil
}
