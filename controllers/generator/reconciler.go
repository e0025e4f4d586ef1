// Package generator turns workloads into protectors. Each Deployment of the core cluster that its selector
// chooses has a protector, which goes only when the Deployment is deleted on purpose or opts out.
package generator

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/desired"
)

// Name is the generator's name: of its controller, its field manager, its Lease and its events.
const Name = desired.ManagedBy

// Reconciler keeps the protector of one Deployment right. A request names the Deployment, whether it exists or
// not.
type Reconciler struct {
	// Client reads from the cache and writes to the apiserver.
	Client client.Client
	// Live reads from the apiserver. It is asked before every step that a cache that lags behind could get
	// wrong for ever: the creation of a protector, its release, and a change of its condition.
	Live client.Reader
	// Selector chooses the Deployments that have protectors.
	Selector labels.Selector
	Events   events.EventRecorder
	Metrics  *Metrics
	// Losses knows the protectors that vanished and are made anew by somebody else; nil when nobody does that.
	Losses Losses
}

// Losses are protectors that vanished without having been released.
type Losses interface {
	// Note takes in that a protector is not there any more, by its last state.
	Note(last *v1alpha1.PodProtector)
	// Has tells whether a protector is about to be made anew.
	Has(key types.NamespacedName) bool
}

// outcome is what one Reconcile came to.
type outcome string

const (
	// ignored: the Deployment wants no protector and has none of ours.
	ignored outcome = "Ignored"
	// protected: the Deployment has its protector.
	protected outcome = "Protected"
	// released: the Deployment was deleted or opted out; protector and finalizers are gone.
	released outcome = "Released"
	// sourceVanished: the protector stays, without its Deployment.
	sourceVanished outcome = "SourceVanished"
	// nameTaken: a protector that is not ours has the name.
	nameTaken outcome = "NameTaken"
	// refused: the Deployment asks for a protector that cannot be.
	refused outcome = "Refused"
	// outdated: the apiserver knows more than the cache. The event that tells us is on its way.
	outdated outcome = "Outdated"
)

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	source, err := get(ctx, r.Client, request.NamespacedName, &appsv1.Deployment{})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("get Deployment: %w", err)
	}
	protector, err := get(ctx, r.Client, protectorKey(request), &v1alpha1.PodProtector{})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("get PodProtector: %w", err)
	}
	result, err := r.settle(ctx, request, source, protector)
	r.Metrics.observe(request.NamespacedName, result)
	return reconcile.Result{}, err
}

// settle decides what a Deployment and its protector need. Each is nil when it does not exist.
func (r *Reconciler) settle(ctx context.Context, request reconcile.Request, source *appsv1.Deployment, protector *v1alpha1.PodProtector) (outcome, error) {
	switch {
	case source == nil && protector == nil:
		return ignored, nil
	case source == nil:
		return r.keep(ctx, request, protector)
	case r.wants(source):
		return r.protect(ctx, source, protector)
	default:
		return r.release(ctx, source, protector)
	}
}

// wants tells whether a Deployment is to have a protector.
func (r *Reconciler) wants(source *appsv1.Deployment) bool {
	return source.DeletionTimestamp == nil && r.Selector.Matches(labels.Set(source.Labels))
}

// get reads an object; nil without an error means that there is none.
func get[T client.Object](ctx context.Context, reader client.Reader, key client.ObjectKey, into T) (T, error) {
	if err := reader.Get(ctx, key, into); err != nil {
		var none T
		return none, client.IgnoreNotFound(err)
	}
	return into, nil
}

func protectorKey(request reconcile.Request) client.ObjectKey {
	return client.ObjectKey{Namespace: request.Namespace, Name: desired.ProtectorName(request.Name)}
}
