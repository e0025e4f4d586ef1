package finalizers

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// WellKnownKind returns the well-known kind with that name, ignoring case.
func WellKnownKind(name string) (schema.GroupVersionKind, bool) {
	for _, kind := range wellKnownKinds() {
		if strings.EqualFold(kind.Kind, name) {
			return kind, true
		}
	}
	return schema.GroupVersionKind{}, false
}

// Get returns one object of the Finder's namespace, or a cluster-scoped one if that is empty, whether or not it has finalizers of
// Breakwater. It returns nil if the object does not exist.
func (f *Finder) Get(ctx context.Context, kind schema.GroupVersionKind, name string) (*HeldObject, error) {
	mapping, err := f.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("the cluster does not have the kind %s of %s", kind.Kind, kind.GroupVersion())
	}
	if err != nil {
		return nil, err
	}
	switch isClusterScoped := mapping.Scope.Name() == meta.RESTScopeNameRoot; {
	case isClusterScoped && f.Namespace != "":
		return nil, fmt.Errorf("a %s is cluster-scoped: omit the namespace", kind.Kind)
	case !isClusterScoped && f.Namespace == "":
		return nil, fmt.Errorf("a %s is namespaced: set its namespace", kind.Kind)
	}
	object, err := f.Metadata.Resource(mapping.Resource).Namespace(f.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &HeldObject{Kind: kind, Resource: mapping.Resource, Object: *object, Finalizers: ownFinalizers(object.Finalizers)}, nil
}
