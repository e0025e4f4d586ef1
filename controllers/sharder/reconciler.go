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

// inspectEvery is how often the sharder checks whether a ring's resources are still served.
const inspectEvery = time.Minute

// Reconciler manages the webhook configurations and the status of rings.
type Reconciler struct {
	client       client.Client
	clientConfig func() admissionregistrationv1.WebhookClientConfig
	annotations  map[string]string
	roll         roll
	inspect      func(context.Context, *v1alpha1.ClusterRingSpec) (layout, []problem)
	kick         func(ring string)
	findings     *findings
	events       events.EventRecorder
	metrics      *Metrics
	tempo        tempo
	now          func() time.Time

	mu sync.Mutex
	of map[string]seen
}

// seen is the last observed state of a ring.
type seen struct {
	ring string
	inspection
	// applied is the webhook configuration that was last applied, and version its resourceVersion since.
	applied []byte
	version string
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	of := &v1alpha1.ClusterRing{}
	if err := r.client.Get(ctx, request.NamespacedName, of); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(request.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.roll.HasSynced() {
		return reconcile.Result{RequeueAfter: r.tempo.poll}, nil
	}
	known := r.seen(of)
	problems := r.examine(ctx, of, &known)
	err := r.configure(ctx, of, &known)
	r.note(of, known)
	if err != nil {
		problems = append(slices.Clone(problems), problem{v1alpha1.ReasonNotConfigured, clusters.Sentence(err)})
	}
	again := reconcile.Result{RequeueAfter: r.tempo.look}
	if err := r.tell(ctx, of, problems); err != nil {
		if apierrors.IsConflict(err) {
			return reconcile.Result{RequeueAfter: r.tempo.poll}, nil // the cache does not have the last write of this or another client yet
		}
		return reconcile.Result{}, err
	}
	if err != nil {
		log.FromContext(ctx).V(1).Info("The apiserver does not ask the webhook", "ring", of.Name, "error", err.Error())
	}
	return again, nil
}

// examine returns the problems of a ring's spec. It checks them periodically: resources that are served may be removed. Passes check as
// well.
func (r *Reconciler) examine(ctx context.Context, of *v1alpha1.ClusterRing, known *seen) []problem {
	if found := r.findings.get(of.Name).inspection; found.inspected.After(known.inspected) {
		known.inspection = found
	}
	age := r.now().Sub(known.inspected)
	if known.generation == of.Generation && age < inspectEvery && (len(known.problems) == 0 || age < r.tempo.look) {
		return known.problems
	}
	_, problems := r.inspect(ctx, &of.Spec)
	if known.generation == of.Generation && !slices.Equal(problems, known.problems) {
		r.kick(of.Name) // there may be objects now that no pass has read
	}
	known.inspection = inspection{of.Generation, problems, r.now()}
	return problems
}

// configure makes the API server call the webhook as the ring specifies. It reverts what other clients changed in the configuration, but
// keeps what they added.
func (r *Reconciler) configure(ctx context.Context, of *v1alpha1.ClusterRing, known *seen) error {
	if _, err := selectorOf(&of.Spec); err != nil {
		return nil // that is a separate problem, and the configuration stays as it is
	}
	have := &admissionregistrationv1.MutatingWebhookConfiguration{}
	err := r.client.Get(ctx, client.ObjectKey{Name: configurationPrefix + of.Name}, have)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get its MutatingWebhookConfiguration: %w", err)
	}
	exists := err == nil
	if len(of.Spec.Resources) == 0 {
		if !exists || !metav1.IsControlledBy(have, of) {
			return nil
		}
		known.applied = nil
		err := r.client.Delete(ctx, have, client.Preconditions{UID: &have.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete its MutatingWebhookConfiguration: %w", err)
		}
		return nil
	}
	want := configurationOf(of, r.clientConfig(), r.annotations)
	text, err := json.Marshal(want)
	if err != nil {
		return fmt.Errorf("write its MutatingWebhookConfiguration down: %w", err)
	}
	if exists && have.ResourceVersion == known.version && bytes.Equal(text, known.applied) {
		return nil
	}
	if err := r.client.Apply(ctx, want, client.FieldOwner(Name), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply its MutatingWebhookConfiguration: %w", err)
	}
	known.applied, known.version = text, have.ResourceVersion
	return nil
}

// seen returns the last observed state of a ring, or an empty state if the ring was recreated under the same name.
func (r *Reconciler) seen(of *v1alpha1.ClusterRing) seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.of[of.Name]; known.ring == string(of.UID) {
		return known
	}
	return seen{ring: string(of.UID)}
}

func (r *Reconciler) note(of *v1alpha1.ClusterRing, known seen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[of.Name] = known
}

func (r *Reconciler) forget(ring string) {
	r.roll.Forget(ring)
	r.findings.forget(ring)
	r.metrics.end(ring)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, ring)
}
