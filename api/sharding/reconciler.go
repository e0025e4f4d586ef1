package sharding

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// retryDelay is the delay before a retry for an object that another goroutine works on.
const retryDelay = 100 * time.Millisecond

// Reconciler returns a reconciler for objects of a type, which must be one of the ring's resources. It calls inner only for
// objects of this shard that the shard was not asked to release. The context of inner ends when the Lease is lost. inner is not
// called for an object that is not in the cache, because it was deleted or belongs to another shard: cleanup for deleted objects
// needs a finalizer.
//
// Reconciler also adds a drainer to the manager, once for each type, which releases objects on request. The drainer does not wait
// for the controller's queue and uses none of its predicates, so the controller can have any. It waits for inner in all
// reconcilers of this type that the Shard has created.
func (s *Shard) Reconciler(mgr manager.Manager, object client.Object, inner reconcile.Reconciler) (reconcile.Reconciler, error) {
	kind, err := apiutil.GVKForObject(object, mgr.GetScheme())
	if err != nil {
		return nil, fmt.Errorf("reconciler of shard %s: %w", s.name, err)
	}
	if err := s.checkAssigned(mgr, object, true); err != nil {
		return nil, err
	}
	if err := s.addDrainer(mgr, kind, object); err != nil {
		return nil, err
	}
	return &reconciler{shard: s, client: mgr.GetClient(), kind: kind, object: object, inner: inner}, nil
}

type reconciler struct {
	shard  *Shard
	client client.Client
	kind   schema.GroupVersionKind
	object client.Object
	inner  reconcile.Reconciler
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	// Register the work before reading the object, so that the drainer cannot release the object in between. The read shows a
	// release that happened earlier.
	j := job{kind: r.kind, key: request.NamespacedName}
	if !r.shard.work.begin(j) {
		return reconcile.Result{RequeueAfter: retryDelay}, nil
	}
	defer r.shard.work.end(j)
	object := r.object.DeepCopyObject().(client.Object) // of the same type
	if err := r.client.Get(ctx, request.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	switch {
	case !r.shard.owns(object):
		log.FromContext(ctx).V(1).Info("Ignored object of another shard", "shard", object.GetLabels()[v1alpha1.LabelShard(r.shard.ring)])
		return reconcile.Result{}, nil
	case r.shard.isDrainRequested(object):
		return reconcile.Result{RequeueAfter: time.Second}, nil // the request may be withdrawn, and no event may follow
	}
	if err := r.shard.hold.err(); err != nil {
		return reconcile.Result{}, err
	}
	ctx, cancel := r.shard.Context(ctx)
	defer cancel()
	return r.inner.Reconcile(ctx, request)
}

// owns reports whether an object belongs to this shard.
func (s *Shard) owns(object client.Object) bool {
	return object.GetLabels()[v1alpha1.LabelShard(s.ring)] == s.name
}

// isDrainRequested reports whether the shard of an object is asked to release it.
func (s *Shard) isDrainRequested(object client.Object) bool {
	_, asked := object.GetLabels()[v1alpha1.LabelDrain(s.ring)]
	return asked
}
