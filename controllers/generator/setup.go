package generator

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ownership"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// workers is how many sources are reconciled at once. It determines how long a first start takes to protect all sources: each needs a few
// requests, which mostly wait for the API server.
const workers = 8

// A failed write is retried after 50 ms, 100 ms, ... and at least every 30 s: while a release fails, the deletion of the source waits,
// and its owner with it.
const (
	minRetryDelay = 50 * time.Millisecond
	maxRetryDelay = 30 * time.Second
)

// Options configure the generator.
type Options struct {
	// Selector selects, by their labels, the workloads that have protectors even without a policy.
	Selector labels.Selector
	// Kinds are the built-in kinds that are watched. Other kinds are watched when a policy names them.
	Kinds []schema.GroupVersionKind
	// Namespace limits the watches of those other kinds, as the manager's cache limits all others; empty means all.
	Namespace string
	// Registry registers the generator's metrics.
	Registry prometheus.Registerer
	// Losses are those of the keeper, which recreates protectors that vanished; nil without a keeper.
	Losses Losses
	// Slots specify the namespaces in which this generator works; nil means all.
	Slots *ownership.Slots
	// Brake holds back large decreases; nil grants all of them at once.
	Brake Brake
	// Tracer creates spans; nil creates none. The caller that connects to the cluster propagates the trace to the API server.
	Tracer *tracing.Tracer
}

// AllKinds returns the built-in kinds that can be watched.
func AllKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "apps", Version: "v1", Kind: "StatefulSet"},
		{Group: "apps", Version: "v1", Kind: "ReplicaSet"},
		{Group: "", Version: "v1", Kind: "ReplicationController"},
	}
}

// Setup adds the generator to a manager whose cache was created with CacheOptions. The informers start with the manager, also while another
// instance leads, so that a new leader starts with full caches.
func Setup(ctx context.Context, mgr manager.Manager, options Options) error {
	kinds, err := newKinds(mgr, options)
	if err != nil {
		return err
	}
	for field, extract := range map[string]client.IndexerFunc{sourceIndex: indexSource, policyIndex: indexPolicy} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.PodProtector{}, field, extract); err != nil {
			return fmt.Errorf("index PodProtectors: %w", err)
		}
	}
	recorder := mgr.GetEventRecorder(Name)
	r := newReconciler(dependencies{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), kinds: kinds, selector: options.Selector, events: recorder,
		metrics: NewMetrics(options.Registry, options.Slots), losses: options.Losses, tracer: options.Tracer, brake: options.Brake,
	})
	if err := r.setup(ctx, mgr, options); err != nil {
		return err
	}
	policies := &PolicyReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Kinds: kinds, Events: recorder, Losses: options.Losses, Now: time.Now}
	if err := policies.setup(mgr, options.Slots); err != nil {
		return err
	}
	return addReadiness(ctx, mgr, kinds)
}

func newKinds(mgr manager.Manager, options Options) (*Kinds, error) {
	metadataClient, err := metadata.NewForConfigAndClient(metadata.ConfigFor(mgr.GetConfig()), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("create the metadata client: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("create the dynamic client: %w", err)
	}
	return &Kinds{
		Cache: mgr.GetClient(), Live: mgr.GetAPIReader(), Scheme: mgr.GetScheme(), Metadata: metadataClient, Dynamic: dynamicClient, Watched: options.Kinds,
		mapper: mgr.GetRESTMapper(), namespace: options.Namespace, watches: newKindWatches(metadataClient, options.Namespace),
	}, nil
}

func (r *Reconciler) setup(ctx context.Context, mgr manager.Manager, options Options) error {
	gate := &ownership.Gate[policy.Ref]{TypedReconciler: r, Slots: options.Slots, Namespace: func(ref policy.Ref) string { return ref.Namespace }}
	sources := []source.TypedSource[policy.Ref]{
		gate.Source(), r.retries.source(), r.kinds.watches.source(),
		clusters.ConfirmedNamespaces(mgr, func(p *v1alpha1.PodProtector) []policy.Ref { return r.mapToSource(ctx, p) }),
	}
	for _, kind := range r.kinds.Watched {
		empty, err := r.kinds.newObject(kind)
		if err != nil {
			return err
		}
		sources = append(sources, source.TypedKind(mgr.GetCache(), empty, enqueueSource(kind.GroupKind()), sourceChangedPredicate()))
	}
	sources = append(sources, source.TypedKind(mgr.GetCache(), &v1alpha1.PodProtector{}, handler.TypedEnqueueRequestsFromMapFunc(r.mapToSource),
		protectorChangedPredicate(options.Losses)))
	for _, policy := range policyKinds() {
		sources = append(sources, source.TypedKind(mgr.GetCache(), policy, handler.TypedEnqueueRequestsFromMapFunc(r.mapToSources), sourceChangedPredicate()))
	}
	return clusters.AddController(mgr, Name, controller.TypedOptions[policy.Ref]{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[policy.Ref](minRetryDelay, maxRetryDelay),
		Reconciler:              gate,
	}, sources...)
}

func (r *PolicyReconciler) setup(mgr manager.Manager, slots *ownership.Slots) error {
	gate := &ownership.Gate[policyRef]{
		TypedReconciler: r, Slots: slots, OnForeignKey: r.watchKindsOnly, Namespace: func(ref policyRef) string { return ref.Namespace },
	}
	changes := source.TypedFunc[policyRef](func(ctx context.Context, queue policyQueue) error {
		r.Kinds.watches.setChangeHandler(func(namespace string) {
			for _, ref := range r.policyRefsFor(ctx, namespace) {
				queue.AddAfter(ref, countDelay)
			}
		})
		return nil
	})
	sources := []source.TypedSource[policyRef]{
		gate.Source(), changes,
		source.TypedKind(mgr.GetCache(), &v1alpha1.PodProtector{}, enqueueDelayed(mapToPolicy), protectorChangedPredicate(nil)),
	}
	enqueueAffected := enqueueDelayed(func(ctx context.Context, object client.Object) []policyRef {
		return r.policyRefsFor(ctx, object.GetNamespace())
	})
	for _, kind := range r.Kinds.Watched {
		empty, err := r.Kinds.newObject(kind)
		if err != nil {
			return err
		}
		sources = append(sources, source.TypedKind(mgr.GetCache(), empty, enqueueAffected, sourceChangedPredicate()))
	}
	enqueueSelf := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []policyRef {
		return []policyRef{{object.GetNamespace(), object.GetName()}}
	})
	for _, policy := range policyKinds() {
		sources = append(sources, source.TypedKind(mgr.GetCache(), policy, enqueueSelf, sourceChangedPredicate()),
			source.TypedKind(mgr.GetCache(), policy, enqueueAffected, sourceChangedPredicate()))
	}
	return clusters.AddController(mgr, Name+"-policies", controller.TypedOptions[policyRef]{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[policyRef](minRetryDelay, maxRetryDelay),
		Reconciler:  gate,
	}, sources...)
}

func policyKinds() []client.Object {
	return []client.Object{&v1alpha1.ProtectionPolicy{}, &v1alpha1.ClusterProtectionPolicy{}}
}

// addReadiness makes the manager ready when its caches hold all objects on which decisions depend.
func addReadiness(ctx context.Context, mgr manager.Manager, kinds *Kinds) error {
	objects := append(policyKinds(), &v1alpha1.PodProtector{})
	for _, kind := range kinds.Watched {
		empty, err := kinds.newObject(kind)
		if err != nil {
			return err
		}
		objects = append(objects, empty)
	}
	return clusters.AddReadiness(ctx, mgr, "workloads, policies and PodProtectors", objects...)
}
