package generator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// Kinds reads sources of every kind. It reads built-in kinds from the manager's cache. It reads other kinds, which policies name, by
// watches of its own. Those are separate from the manager's watches, which must not wait for a kind that does not exist or that the
// generator may not list. Of other kinds only the metadata is cached, and their objects are read when they have changed.
type Kinds struct {
	// Cache and Live read typed objects.
	Cache, Live client.Reader
	Scheme      *runtime.Scheme
	Mapper      meta.RESTMapper
	Metadata    metadata.Interface
	Dynamic     dynamic.Interface
	// Watched are the built-in kinds that are watched.
	Watched []schema.GroupVersionKind
	// Namespace limits the other kinds to one namespace; empty means all.
	Namespace string

	mu               sync.Mutex
	kindWatches      map[schema.GroupKind]*kindWatch
	auxiliaryWatches map[schema.GroupVersionResource]*kindWatch
	// enqueue enqueues a source; nil until the controller runs.
	enqueue func(policy.Ref)
	// ctx ends with the controller, and with it the watches.
	ctx context.Context
	// changeHandler is called when an object changed that policies use, other than a workload.
	changeHandler func(namespace string)
}

// isBuiltIn reports whether a source is of a built-in kind.
func (k *Kinds) isBuiltIn(ref policy.Ref) bool {
	_, ok := k.builtInKind(ref.GroupKind())
	return ok
}

func (k *Kinds) builtInKind(kind schema.GroupKind) (schema.GroupVersionKind, bool) {
	for builtIn := range policy.BuiltIn() {
		if builtIn.GroupKind() == kind {
			return builtIn, true
		}
	}
	return schema.GroupVersionKind{}, false
}

// interpreterFor returns the interpreter for sources of a kind.
func (k *Kinds) interpreterFor(ref policy.Ref, origin policy.Origin) policy.Interpreter {
	if kind, ok := k.builtInKind(ref.GroupKind()); ok {
		return policy.BuiltIn()[kind]
	}
	if origin.TemplatePath != "" {
		return policy.Template{Path: origin.TemplatePath}
	}
	return policy.Scaled{}
}

// getCached returns a source from the cache; nil when it does not exist. For kinds that are not built in, it returns the metadata. If a kind
// is not watched, or its watch has not synced, cached reads from the API server.
func (k *Kinds) getCached(ctx context.Context, ref policy.Ref) (client.Object, error) {
	if kind, ok := k.builtInKind(ref.GroupKind()); ok && slices.Contains(k.Watched, kind) {
		return k.getTyped(ctx, k.Cache, kind, ref)
	}
	if object, isWatched := k.watchedMetadata(ref); isWatched {
		if object == nil {
			return nil, nil
		}
		return object, nil
	}
	return k.getLive(ctx, ref)
}

// getLive returns a source from the API server; nil when the source or its kind does not exist.
func (k *Kinds) getLive(ctx context.Context, ref policy.Ref) (client.Object, error) {
	if kind, ok := k.builtInKind(ref.GroupKind()); ok {
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
	object, ok := created.(client.Object)
	if !ok {
		return nil, fmt.Errorf("type of %s is not a client.Object", kind.Kind)
	}
	return object, nil
}

// getFull returns a source with all that its interpreter needs; nil when the source is no longer the one that the cache shows.
func (k *Kinds) getFull(ctx context.Context, ref policy.Ref, source client.Object, origin policy.Origin) (*policy.Source, error) {
	if kind, ok := k.builtInKind(ref.GroupKind()); ok {
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
	if object.GetUID() != source.GetUID() || object.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	full := &policy.Source{Kind: kind, Object: object}
	if origin.TemplatePath == "" {
		full.Scale, err = k.getScale(ctx, ref, resource)
	}
	return full, err
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

// resourceOf returns the resource of a kind, in the version by which a policy or a protector names it.
func (k *Kinds) resourceOf(kind schema.GroupKind) (schema.GroupVersionKind, schema.GroupVersionResource, error) {
	version := ""
	k.mu.Lock()
	if watched := k.kindWatches[kind]; watched != nil {
		version = watched.kind.Version
	}
	k.mu.Unlock()
	var versions []string
	if version != "" {
		versions = []string{version}
	}
	mapping, err := k.Mapper.RESTMapping(kind, versions...)
	if err != nil {
		return schema.GroupVersionKind{}, schema.GroupVersionResource{}, err
	}
	return mapping.GroupVersionKind, mapping.Resource, nil
}

// ignoreNotServed returns nil if the error means that the API server does not serve the kind.
func ignoreNotServed(err error) error {
	var noResource *meta.NoResourceMatchError
	var noKind *meta.NoKindMatchError
	if errors.As(err, &noResource) || errors.As(err, &noKind) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// candidate returns the properties of a source that policies use.
func (k *Kinds) candidate(ctx context.Context, ref policy.Ref, source client.Object, policies []*policy.Policy) (policy.Candidate, error) {
	c := policy.Candidate{Ref: ref, Labels: source.GetLabels()}
	if !slices.ContainsFunc(policies, func(p *policy.Policy) bool { return p.Namespaces != nil }) {
		return c, nil
	}
	var err error
	c.NamespaceLabels, err = k.namespaceLabels(ctx, ref.Namespace)
	return c, err
}

// policyResource returns the resource of a policy.
func policyResource(p *policy.Policy) schema.GroupVersionResource {
	if p.Namespace == "" {
		return v1alpha1.GroupVersion.WithResource("clusterprotectionpolicies")
	}
	return v1alpha1.GroupVersion.WithResource("protectionpolicies")
}
