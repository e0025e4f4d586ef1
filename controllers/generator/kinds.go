package generator

import (
	"context"
	"fmt"
	"maps"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// Kinds reads sources of every kind. It reads built-in kinds from the manager's cache. It reads other kinds, which policies name, by
// watches of its own. Those are separate from the manager's watches, which must not wait for a kind that does not exist or that the
// generator may not list. Of other kinds only the metadata is cached, and their objects are read when they have changed.
type Kinds struct {
	// Cache and Live read typed objects.
	Cache, Live client.Reader
	Scheme      *runtime.Scheme
	Metadata    metadata.Interface
	Dynamic     dynamic.Interface
	// Watched are the built-in kinds whose objects the cache has, from Options.Kinds.
	Watched []schema.GroupVersionKind

	mapper meta.RESTMapper
	// namespace limits the kinds that are not built in to one namespace; empty means all.
	namespace string
	// watches are the watches of kinds that are not built in.
	watches *kindWatches
}

// getCached returns a source from the cache; nil when it does not exist. For kinds that are not built in, it returns the metadata. If a kind
// is not watched, or its watch has not synced, getCached reads from the API server.
func (k *Kinds) getCached(ctx context.Context, ref policy.Ref) (client.Object, error) {
	if kind, ok := builtInKind(ref.GroupKind()); ok && slices.Contains(k.Watched, kind) {
		return k.getTyped(ctx, k.Cache, kind, ref)
	}
	if object, isWatched := k.watches.get(ref); isWatched {
		if object == nil {
			return nil, nil
		}
		return object, nil
	}
	return k.getLive(ctx, ref)
}

// getUnchanged returns a source from the API server; nil when it was replaced by another object or is being deleted, or does not exist any more.
func (k *Kinds) getUnchanged(ctx context.Context, ref policy.Ref, source client.Object) (client.Object, error) {
	live, err := k.getLive(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("get the %s from the API server: %w", ref.Kind, err)
	}
	if live == nil || live.GetUID() != source.GetUID() || live.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	return live, nil
}

// getLive returns a source from the API server; nil when the source or its kind does not exist.
func (k *Kinds) getLive(ctx context.Context, ref policy.Ref) (client.Object, error) {
	if kind, ok := builtInKind(ref.GroupKind()); ok {
		return k.getTyped(ctx, k.Live, kind, ref)
	}
	kind, resource, err := k.resourceOf(ref.GroupKind())
	if err != nil {
		return nil, ignoreNotServed(err)
	}
	object, err := k.Metadata.Resource(resource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	object.SetGroupVersionKind(kind)
	return object, nil
}

func (k *Kinds) getTyped(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, ref policy.Ref) (client.Object, error) {
	object, err := k.newObject(kind)
	if err != nil {
		return nil, err
	}
	return get(ctx, reader, ref.Key(), object)
}

// newObject returns an empty object of a built-in kind.
func (k *Kinds) newObject(kind schema.GroupVersionKind) (client.Object, error) {
	created, err := k.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	return created.(client.Object), nil
}

// getFull returns a source with all that its interpreter needs. For a kind that is not built in it reads the object. It returns nil if the object was
// deleted, recreated or relabeled since the cache read it: its labels chose the policy.
func (k *Kinds) getFull(ctx context.Context, ref policy.Ref, source client.Object, origin policy.Origin) (*policy.Source, error) {
	if kind, ok := builtInKind(ref.GroupKind()); ok {
		return &policy.Source{Kind: kind, Object: source}, nil
	}
	kind, resource, err := k.resourceOf(ref.GroupKind())
	if err != nil {
		return nil, err
	}
	object, err := k.Dynamic.Resource(resource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if object.GetUID() != source.GetUID() || object.GetDeletionTimestamp() != nil || !maps.Equal(object.GetLabels(), source.GetLabels()) {
		return nil, nil
	}
	full := &policy.Source{Kind: kind, Object: object}
	if origin.TemplatePath != "" {
		return full, nil
	}
	full.Scale, err = k.getScale(ctx, ref, resource)
	if err != nil {
		return nil, err
	}
	if full.Scale != nil && full.Scale.UID != "" && full.Scale.UID != source.GetUID() {
		return nil, nil // the scale is of another object of this name
	}
	return full, nil
}

// getScale reads a source's scale; nil when its kind has none.
func (k *Kinds) getScale(ctx context.Context, ref policy.Ref, resource schema.GroupVersionResource) (*autoscalingv1.Scale, error) {
	content, err := k.Dynamic.Resource(resource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{}, "scale")
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get the scale subresource: %w", err)
	}
	scale := &autoscalingv1.Scale{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, scale); err != nil {
		return nil, fmt.Errorf("convert the scale subresource: %w", err)
	}
	return scale, nil
}

// isBuiltIn reports whether a source is of a built-in kind.
func isBuiltIn(ref policy.Ref) bool {
	_, ok := builtInKind(ref.GroupKind())
	return ok
}

func builtInKind(kind schema.GroupKind) (schema.GroupVersionKind, bool) {
	for builtIn := range policy.BuiltIn() {
		if builtIn.GroupKind() == kind {
			return builtIn, true
		}
	}
	return schema.GroupVersionKind{}, false
}

// interpreterFor returns the interpreter for sources of a kind.
func interpreterFor(ref policy.Ref, origin policy.Origin) policy.Interpreter {
	if kind, ok := builtInKind(ref.GroupKind()); ok {
		return policy.BuiltIn()[kind]
	}
	if origin.TemplatePath != "" {
		return policy.Template{Path: origin.TemplatePath}
	}
	return policy.Scaled{}
}
