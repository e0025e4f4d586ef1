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

// soon is after how long it is looked again at an object that somebody else has in hand.
const soon = 100 * time.Millisecond

// Reconciler makes one that reconciles objects of a type, which is one of the ring's resources, only those of this shard, and none that
// it was asked to let go of. The context of inner ends when the Lease is lost. An object that is not in the cache, because it is gone or
// another shard's, is not given to inner: what has to be done when it is deleted needs a finalizer.
//
// It also adds to the manager, once for each type, what lets go of objects that are asked for. That does not wait for the controller's
// queue, and goes by no predicates of its own, so that the controller can have whichever. It waits for inner, in all reconcilers of this
// type that the Shard has made.
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
	// It is noted before the object is read: what is let go of meanwhile is seen as that.
	j := job{kind: r.kind, key: request.NamespacedName}
	if !r.shard.work.begin(j) {
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	defer r.shard.work.end(j)
	object := r.object.DeepCopyObject().(client.Object) // of the same type
	if err := r.client.Get(ctx, request.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	switch {
	case !r.shard.has(object):
		log.FromContext(ctx).V(1).Info("The object is not this shard's", "shard", object.GetLabels()[v1alpha1.LabelShard(r.shard.ring)])
		return reconcile.Result{}, nil
	case r.shard.isAsked(object):
		return reconcile.Result{RequeueAfter: time.Second}, nil // that may be taken back, and nobody else would come to this then
	}
	if err := r.shard.hold.err(); err != nil {
		return reconcile.Result{}, err
	}
	ctx, cancel := r.shard.Context(ctx)
	defer cancel()
	return r.inner.Reconcile(ctx, request)
}

// has tells whether an object is this shard's.
func (s *Shard) has(object client.Object) bool {
	return object.GetLabels()[v1alpha1.LabelShard(s.ring)] == s.name
}

// isAsked tells whether the shard of an object is asked to let go of it.
func (s *Shard) isAsked(object client.Object) bool {
	_, asked := object.GetLabels()[v1alpha1.LabelDrain(s.ring)]
	return asked
}
