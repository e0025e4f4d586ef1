package sharder

import (
	"context"
	"maps"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
)

const (
	// workers is how many rings are reconciled at once.
	workers = 4
	// passWorkers is how many rings have a pass at once. A pass lasts as long as objects move, and must not delay other rings.
	passWorkers = 100
)

// enqueuer enqueues a ring at a controller. It does nothing while the controller does not run.
type enqueuer struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func (b *enqueuer) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = queue
	return nil
}

func (b *enqueuer) enqueue(name string) {
	b.mu.Lock()
	queue := b.queue
	b.mu.Unlock()
	if queue != nil {
		queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	}
}

func (r *Reconciler) setup(mgr manager.Manager, statusEnqueuer *enqueuer) error {
	configurations := handler.TypedEnqueueRequestsFromMapFunc(
		func(_ context.Context, c *admissionregistrationv1.MutatingWebhookConfiguration) []reconcile.Request {
			name, ok := strings.CutPrefix(c.Name, configurationPrefix)
			if !ok {
				return nil
			}
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: name}}}
		})
	return clusters.AddController(mgr, Name, controller.Options{Reconciler: r, MaxConcurrentReconciles: workers}, source.Func(statusEnqueuer.start), specs(mgr),
		source.Kind(mgr.GetCache(), &admissionregistrationv1.MutatingWebhookConfiguration{}, configurations))
}

// specs returns a source of ClusterRings that were created, deleted, or whose spec changed.
func specs(mgr manager.Manager) source.Source {
	return source.Kind(mgr.GetCache(), &v1alpha1.ClusterRing{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.ClusterRing]{},
		predicate.TypedGenerationChangedPredicate[*v1alpha1.ClusterRing]{})
}

func (r *PassReconciler) setup(mgr manager.Manager, passEnqueuer *enqueuer, request func(ring string)) error {
	moved := handler.TypedFuncs[*metav1.PartialObjectMetadata, reconcile.Request]{UpdateFunc: func(
		ctx context.Context, e event.TypedUpdateEvent[*metav1.PartialObjectMetadata], _ workqueue.TypedRateLimitingInterface[reconcile.Request],
	) {
		if maps.Equal(e.ObjectOld.Labels, e.ObjectNew.Labels) {
			return
		}
		all := &v1alpha1.ClusterRingList{}
		if mgr.GetClient().List(ctx, all) != nil {
			return // the cache has stopped
		}
		for i := range all.Items {
			if selector, err := r.selectorOf(&all.Items[i].Spec); err == nil &&
				selector.Matches(labels.Set(e.ObjectOld.Labels)) != selector.Matches(labels.Set(e.ObjectNew.Labels)) {
				request(all.Items[i].Name)
			}
		}
	}}
	return clusters.AddController(mgr, Name+"-passes", controller.Options{Reconciler: r, MaxConcurrentReconciles: passWorkers},
		source.Func(passEnqueuer.start), specs(mgr), source.Kind(mgr.GetCache(), clusters.EmptyNamespace(), moved))
}
