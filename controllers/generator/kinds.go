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

	mu      sync.Mutex
	others  map[schema.GroupKind]*other
	helpers map[schema.GroupVersionResource]*other
	// starter enqueues a source; nil until the controller runs.
	starter func(policy.Ref)
	// ctx ends with the controller, and with it the watches.
	ctx context.Context
	// changed is called when an object changed that policies use, other than a workload.
	changed func(namespace string)
}

// isBuiltIn reports whether a source is of a built-in kind.
func (k *Kinds) isBuiltIn(ref policy.Ref) bool {
	_, ok := k.builtIn(ref.GroupKind())
	return ok
}

func (k *Kinds) builtIn(kind schema.GroupKind) (schema.GroupVersionKind, bool) {
	for known := range policy.BuiltIn() {
		if known.GroupKind() == kind {
			return known, true
		}
	}
	return schema.GroupVersionKind{}, false
}

// interpreter returns the interpreter for sources of a kind.
func (k *Kinds) interpreter(ref policy.Ref, origin policy.Origin) policy.Interpreter {
	if kind, ok := k.builtIn(ref.GroupKind()); ok {
		return policy.BuiltIn()[kind]
	}
	if origin.TemplatePath != "" {
		return policy.Template{Path: origin.TemplatePath}
	}
	return policy.Scaled{}
}

// cached returns a source from the cache; nil when it does not exist. For kinds that are not built in, it returns the metadata. If a kind
// is not watched, or its watch has not synced, cached reads from the API server.
func (k *Kinds) cached(ctx context.Context, ref policy.Ref) (client.Object, error) {
	if kind, ok := k.builtIn(ref.GroupKind()); ok && slices.Contains(k.Watched, kind) {
		return k.typed(ctx, k.Cache, kind, ref)
	}
	if object, known := k.watchedMetadata(ref); known {
		if object == nil {
			return nil, nil
		}
		return object, nil
	}
	return k.live(ctx, ref)
}

// live returns a source from the API server; nil when the source or its kind does not exist.
func (k *Kinds) live(ctx context.Context, ref policy.Ref) (client.Object, error) {
	if kind, ok := k.builtIn(ref.GroupKind()); ok {
		return k.typed(ctx, k.Live, kind, ref)
	}
	kind, resource, err := k.served(ref.GroupKind())
	if err != nil {
		return nil, ignoreUnserved(err)
	}
	object, err := k.Metadata.Resource(resource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	object.SetGroupVersionKind(kind)
	return object, nil
}

func (k *Kinds) typed(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, ref policy.Ref) (client.Object, error) {
	object, err := k.empty(kind)
	if err != nil {
		return nil, err
	}
	return get(ctx, reader, ref.Key(), object)
}

// empty returns an empty object of a built-in kind.
func (k *Kinds) empty(kind schema.GroupVersionKind) (client.Object, error) {
	empty, err := k.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	object, ok := empty.(client.Object)
	if !ok {
		return nil, fmt.Errorf("a %s is no object", kind.Kind)
	}
	return object, nil
}

// whole returns a source with all that its interpreter needs; nil when the source is no longer the one that the cache shows.
func (k *Kinds) whole(ctx context.Context, ref policy.Ref, source client.Object, origin policy.Origin) (*policy.Source, error) {
	if kind, ok := k.builtIn(ref.GroupKind()); ok {
		return &policy.Source{Kind: kind, Object: source}, nil
	}
	kind, resource, err := k.served(ref.GroupKind())
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
	whole := &policy.Source{Kind: kind, Object: object}
	if origin.TemplatePath == "" {
		whole.Scale, err = k.scale(ctx, ref, resource)
	}
	return whole, err
}

// scale reads a source's scale; nil when its kind has none.
func (k *Kinds) scale(ctx context.Context, ref policy.Ref, resource schema.GroupVersionResource) (*autoscalingv1.Scale, error) {
	fields, err := k.Dynamic.Resource(resource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{}, "scale")
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get the scale: %w", err)
	}
	scale := &autoscalingv1.Scale{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields.Object, scale); err != nil {
		return nil, fmt.Errorf("read the scale: %w", err)
	}
	return scale, nil
}

// served returns the resource of a kind, in the version by which a policy or a protector names it.
func (k *Kinds) served(kind schema.GroupKind) (schema.GroupVersionKind, schema.GroupVersionResource, error) {
	version := ""
	k.mu.Lock()
	if known := k.others[kind]; known != nil {
		version = known.kind.Version
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

// ignoreUnserved returns nil if the error means that the API server does not serve the kind.
func ignoreUnserved(err error) error {
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
