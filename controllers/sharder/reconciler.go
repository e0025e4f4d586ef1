// Package sharder spreads the objects of ClusterRings over the shards of controllers: it makes the apiserver ask the admission webhook about
// objects that no shard has, looks at all objects from time to time and whenever shards come or go, moves those that are to be with another
// shard, and says in the status of the ring how it stands.
//
// It does not watch the objects. What it needs does not depend on how many there are.
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

// Name is the controllers' name, and their field manager.
const Name = "breakwater-sharder"

// inspectEvery is how often is looked whether a ring's resources are served, while they are.
const inspectEvery = time.Minute

// Reconciler keeps the webhook configurations and the status of rings.
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

// seen is what a ring was found to be.
type seen struct {
	ring string
	inspection
	// applied is what its configuration was made to say, and version what it has been since.
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
			return reconcile.Result{RequeueAfter: r.tempo.poll}, nil // it is not in the cache yet what somebody has written, or we have
		}
		return reconcile.Result{}, err
	}
	if err != nil {
		log.FromContext(ctx).V(1).Info("The apiserver does not ask the webhook", "ring", of.Name, "error", err.Error())
	}
	return again, nil
}

// examine finds out what of a ring's spec cannot be done, now and then: of what can, whether it still can. Passes find out as well.
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
		r.kick(of.Name) // there may be objects now that were not looked at
	}
	known.inspection = inspection{of.Generation, problems, r.now()}
	return problems
}

// configure makes the apiserver ask the webhook as the ring says. What others have changed in it is changed back, apart from what they
// have added.
func (r *Reconciler) configure(ctx context.Context, of *v1alpha1.ClusterRing, known *seen) error {
	if _, err := selectorOf(&of.Spec); err != nil {
		return nil // that is a problem of its own, and the configuration stays as it was
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

// seen is what is known of a ring; nothing of another one of its name.
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
