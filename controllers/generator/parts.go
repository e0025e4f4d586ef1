package generator

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// Losses are protectors that vanished without having been released.
type Losses interface {
	// Record records that a protector no longer exists, by its last state. isUnwatched is set if a list has shown that after its watch was interrupted.
	Record(last *v1alpha1.PodProtector, isUnwatched bool)
	// Has reports whether a protector is about to be recreated.
	Has(key types.NamespacedName) bool
	// Find returns the last state of a protector that is about to be recreated and for which is returns true.
	Find(is func(last *v1alpha1.PodProtector) bool) (last *v1alpha1.PodProtector, ok bool)
	// Forget records that a protector was released, and is not recreated.
	Forget(last *v1alpha1.PodProtector)
}

// dependencies are what the parts of a Reconciler use.
type dependencies struct {
	// client reads from the cache and writes to the API server.
	client client.Client
	// live reads from the API server. The generator uses it before every step that could go wrong permanently if the cache lags: the
	// creation of a protector, its release, and a change of its condition.
	live client.Reader
	// kinds reads sources.
	kinds *Kinds
	// selector selects the workloads that have protectors even without a policy.
	selector labels.Selector
	events   events.EventRecorder
	metrics  *Metrics
	// losses has the protectors that vanished and that the keeper recreates; nil without a keeper.
	losses Losses
	// tracer creates spans; nil creates none.
	tracer *tracing.Tracer
	// brake holds back large decreases; nil grants all of them at once.
	brake Brake
}

func newReconciler(d dependencies) *Reconciler {
	retry := &retries{}
	policies := &policyChooser{cache: d.client, live: d.live, kinds: d.kinds, selector: d.selector}
	onSource := &sourceEvents{recorder: d.events, selector: d.selector}
	apply := &applier{d.client}
	decreases := &decreaseLimiter{brake: d.brake, live: d.live, applier: apply, kinds: d.kinds, policies: policies, source: onSource, retries: retry}
	conditions := &conditionWriter{
		announcer: clusters.Announcer{Status: d.client, Live: d.live, Events: d.events, Owner: Name, Action: "Resolve"}, kinds: d.kinds,
	}
	finalizer := &sourceFinalizer{d.client, d.kinds}
	release := &releaser{
		client: d.client, live: d.live, kinds: d.kinds, losses: d.losses, policies: policies, decreases: decreases, conditions: conditions,
		finalizer: finalizer, retries: retry, metrics: d.metrics,
	}
	return &Reconciler{
		cache: d.client, kinds: d.kinds, policies: policies, releaser: release, source: onSource, retries: retry, metrics: d.metrics, tracer: d.tracer,
		retainer: &retainer{cache: d.client, live: d.live, kinds: d.kinds, decreases: decreases, conditions: conditions, releaser: release},
		protection: &protection{
			live: d.live, kinds: d.kinds, losses: d.losses, applier: apply, decreases: decreases, conditions: conditions,
			finalizer: finalizer, releaser: release, events: d.events, source: onSource, retries: retry, metrics: d.metrics,
		},
	}
}
