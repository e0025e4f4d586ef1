// Package sharder spreads the objects of ClusterRings over the shards of controllers. It makes the API server call the admission webhook
// for objects that no shard has. It reads all objects periodically, and whenever shards join or leave. It moves objects that belong to
// another shard, and reports the state in the status of the ring.
//
// It does not watch the objects, so its memory does not depend on their number.
package sharder

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// Name is the name of the controllers and of their field manager.
const Name = "breakwater-sharder"

// inspectInterval is how often the sharder checks whether a ring's resources are still served.
const inspectInterval = time.Minute

// Reconciler manages the webhook configurations and the status of rings.
type Reconciler struct {
	client       client.Client
	clientConfig func() admissionregistrationv1.WebhookClientConfig
	annotations  map[string]string
	registry     shardRegistry
	checkSpec    func(context.Context, *v1alpha1.ClusterRingSpec) (layout, []problem)
	requestPass  func(ring string)
	results      *passResults
	events       events.EventRecorder
	metrics      *Metrics
	clock        clock

	mu     sync.Mutex
	states map[string]ringState
}

// ringState is the last observed state of a ring.
type ringState struct {
	uid string
	inspection
	// applied is the webhook configuration that was last applied, and version its resourceVersion since.
	applied []byte
	version string
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	clusterRing := &v1alpha1.ClusterRing{}
	if err := r.client.Get(ctx, request.NamespacedName, clusterRing); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(request.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.registry.HasSynced() {
		return reconcile.Result{RequeueAfter: r.clock.timing.poll}, nil
	}
	state := r.stateOf(clusterRing)
	problems := r.problemsOf(ctx, clusterRing, &state)
	err := r.applyConfiguration(ctx, clusterRing, &state)
	r.storeState(clusterRing, state)
	if err != nil {
		problems = append(slices.Clone(problems), problem{v1alpha1.ReasonNotConfigured, clusters.Sentence(err)})
	}
	requeue := reconcile.Result{RequeueAfter: r.clock.timing.checkInterval}
	if err := r.updateStatus(ctx, clusterRing, problems); err != nil {
		if apierrors.IsConflict(err) {
			return reconcile.Result{RequeueAfter: r.clock.timing.poll}, nil // the cache does not have the last write of this or another client yet
		}
		return reconcile.Result{}, err
	}
	if err != nil {
		log.FromContext(ctx).V(1).Info("Failed to configure the webhook", "ring", clusterRing.Name, "error", err.Error())
	}
	return requeue, nil
}

// problemsOf returns the problems of a ring's spec. It checks them periodically: resources that are served may be removed. Passes check as
// well.
func (r *Reconciler) problemsOf(ctx context.Context, clusterRing *v1alpha1.ClusterRing, state *ringState) []problem {
	if found := r.results.get(clusterRing.Name).inspection; found.inspected.After(state.inspected) {
		state.inspection = found
	}
	age := r.clock.now().Sub(state.inspected)
	if state.generation == clusterRing.Generation && age < inspectInterval && (len(state.problems) == 0 || age < r.clock.timing.checkInterval) {
		return state.problems
	}
	_, problems := r.checkSpec(ctx, &clusterRing.Spec)
	if state.generation == clusterRing.Generation && !slices.Equal(problems, state.problems) {
		r.requestPass(clusterRing.Name) // there may be objects now that no pass has read
	}
	state.inspection = inspection{clusterRing.Generation, problems, r.clock.now()}
	return problems
}

// applyConfiguration makes the API server call the webhook as the ring specifies. It reverts what other clients changed in the configuration, but
// keeps what they added.
func (r *Reconciler) applyConfiguration(ctx context.Context, clusterRing *v1alpha1.ClusterRing, state *ringState) error {
	if _, err := metav1.LabelSelectorAsSelector(clusterRing.Spec.NamespaceSelector.LabelSelector()); err != nil {
		return nil // that is a separate problem, and the configuration stays as it is
	}
	have := &admissionregistrationv1.MutatingWebhookConfiguration{}
	err := r.client.Get(ctx, client.ObjectKey{Name: configurationPrefix + clusterRing.Name}, have)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get the MutatingWebhookConfiguration of the ring: %w", err)
	}
	exists := err == nil
	if len(clusterRing.Spec.Resources) == 0 {
		if !exists || !metav1.IsControlledBy(have, clusterRing) {
			return nil
		}
		state.applied = nil
		err := r.client.Delete(ctx, have, client.Preconditions{UID: &have.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete the MutatingWebhookConfiguration of the ring: %w", err)
		}
		return nil
	}
	want := configurationOf(clusterRing, r.clientConfig(), r.annotations)
	data, err := json.Marshal(want)
	if err != nil {
		return fmt.Errorf("encode the MutatingWebhookConfiguration of the ring: %w", err)
	}
	if exists && have.ResourceVersion == state.version && bytes.Equal(data, state.applied) {
		return nil
	}
	if err := r.client.Apply(ctx, want, client.FieldOwner(Name), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply the MutatingWebhookConfiguration of the ring: %w", err)
	}
	state.applied, state.version = data, have.ResourceVersion
	return nil
}

// stateOf returns the last observed state of a ring, or an empty state if the ring was recreated under the same name.
func (r *Reconciler) stateOf(clusterRing *v1alpha1.ClusterRing) ringState {
	r.mu.Lock()
	defer r.mu.Unlock()
	if state := r.states[clusterRing.Name]; state.uid == string(clusterRing.UID) {
		return state
	}
	return ringState{uid: string(clusterRing.UID)}
}

func (r *Reconciler) storeState(clusterRing *v1alpha1.ClusterRing, state ringState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states[clusterRing.Name] = state
}

func (r *Reconciler) forget(ring string) {
	r.registry.Forget(ring)
	r.results.remove(ring)
	r.metrics.deleteSeries(ring)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.states, ring)
}
