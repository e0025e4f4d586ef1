package keeper

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ownership"
)

const (
	workers       = 4
	minRetryDelay = 50 * time.Millisecond
	maxRetryDelay = 10 * time.Second
)

// Setup adds the keeper to the manager of a core cluster, whose cache must show the cells of protectors' status. The keeper also remembers
// losses while another instance leads.
// own specifies the namespaces in which this keeper works; nil means all. brake holds back releases; nil grants each at once.
func Setup(
	ctx context.Context, mgr manager.Manager, registry prometheus.Registerer, losses *Losses, slots *ownership.Slots, brake Brake,
) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.PodProtector{})
	if err != nil {
		return fmt.Errorf("watch PodProtectors: %w", err)
	}
	if _, err := informer.AddEventHandler(losses.handler()); err != nil {
		return fmt.Errorf("watch PodProtectors: %w", err)
	}
	gate := ownership.GateRequests(slots, &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(Name), Losses: losses, Brake: brake, metrics: newMetrics(registry, losses),
	})
	lost := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		losses.subscribe(func(key types.NamespacedName) { queue.Add(reconcile.Request{NamespacedName: key}) })
		return nil
	})
	sources := []source.Source{
		gate.Source(), lost,
		source.Kind(mgr.GetCache(), &v1alpha1.PodProtector{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.PodProtector]{}, changedPredicate()),
	}
	if brake != nil {
		sources = append(sources, clusters.ConfirmedNamespaces(mgr, func(p *v1alpha1.PodProtector) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(p)}}
		}))
	}
	return clusters.AddController(mgr, Name, controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minRetryDelay, maxRetryDelay),
		Reconciler:              gate,
	}, sources...)
}

// changedPredicate drops updates that do not concern whether a protector is held, deleted or complete, above all the status writes of a storm.
func changedPredicate() predicate.TypedPredicate[*v1alpha1.PodProtector] {
	return predicate.TypedFuncs[*v1alpha1.PodProtector]{
		UpdateFunc: func(e event.TypedUpdateEvent[*v1alpha1.PodProtector]) bool {
			before, after := e.ObjectOld, e.ObjectNew
			return before.UID != after.UID || before.ResourceVersion == after.ResourceVersion ||
				(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
				before.Annotations[v1alpha1.AnnotationConfirmRelease] != after.Annotations[v1alpha1.AnnotationConfirmRelease] ||
				!slices.Equal(before.Finalizers, after.Finalizers) || quota.IsRestorePending(before) != quota.IsRestorePending(after)
		},
		DeleteFunc: func(event.TypedDeleteEvent[*v1alpha1.PodProtector]) bool { return false }, // Losses follows deletions
	}
}
