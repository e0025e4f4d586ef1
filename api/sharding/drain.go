package sharding

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// maxConcurrentDrains is how many objects of a type a shard releases concurrently.
const maxConcurrentDrains = 8

// drainer releases objects of a type when their shard is asked to.
type drainer struct {
	shard  *Shard
	client client.Client
	kind   schema.GroupVersionKind
	object client.Object
}

// addDrainer adds the drainer of a type to the manager, once.
func (s *Shard) addDrainer(mgr manager.Manager, kind schema.GroupVersionKind, object client.Object) error {
	if s.drained[kind] {
		return nil
	}
	d := &drainer{shard: s, client: s.Client(mgr.GetClient()), kind: kind, object: object}
	yes := true
	c, err := controller.New(strings.ToLower("drain-"+s.ring+"-"+kind.GroupKind().String()), mgr, controller.Options{
		Reconciler: d, MaxConcurrentReconciles: maxConcurrentDrains, NeedLeaderElection: &yes,
		SkipNameValidation: &yes, // a process may have several shards
	})
	if err != nil {
		return fmt.Errorf("controller that releases objects: %w", err)
	}
	err = c.Watch(source.Kind(mgr.GetCache(), object, &handler.EnqueueRequestForObject{},
		predicate.NewPredicateFuncs(func(object client.Object) bool { return s.owns(object) && s.isDrainRequested(object) })))
	if err != nil {
		return fmt.Errorf("watch %s: %w", kind.Kind, err)
	}
	s.drained[kind] = true
	return nil
}

// Reconcile implements reconcile.Reconciler.
func (d *drainer) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	j := job{kind: d.kind, key: request.NamespacedName}
	if !d.shard.work.startRelease(j) {
		return reconcile.Result{RequeueAfter: retryDelay}, nil // a reconciler works on it
	}
	defer d.shard.work.endRelease(j)
	object := d.object.DeepCopyObject().(client.Object) // of the same type
	if err := d.client.Get(ctx, request.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !d.shard.owns(object) || !d.shard.isDrainRequested(object) {
		return reconcile.Result{}, nil
	}
	err := d.acknowledge(ctx, object)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: retryDelay}, nil // the cache is about to receive the current version
	case err == nil:
		log.FromContext(ctx).V(1).Info("Released object", "ring", d.shard.ring)
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// acknowledge removes the shard label and answers the drain, if the object has not changed since it was read. That same request
// decides which shard gets the object next.
func (d *drainer) acknowledge(ctx context.Context, object client.Object) error {
	of := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName()}}
	of.SetGroupVersionKind(d.kind)
	patch := fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"labels":{%q:null,%q:%q}}}`,
		object.GetResourceVersion(), v1alpha1.LabelShard(d.shard.ring), v1alpha1.LabelDrain(d.shard.ring), v1alpha1.DrainAnswered)
	if err := d.client.Patch(ctx, of, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return fmt.Errorf("release the object: %w", err)
	}
	return nil
}
