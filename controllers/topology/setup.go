package topology

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// workers is how many Cells are checked concurrently: a cluster that does not answer must not delay the other Cells.
const workers = 16

// Setup adds the controllers to the manager of a core cluster, with a readiness check. cells has the connections to the clusters of Cells
// that refer to no kubeconfig. registry registers the metrics.
func Setup(ctx context.Context, mgr manager.Manager, cells map[string]*rest.Config, registry prometheus.Registerer) error {
	r := &Reconciler{
		Cells: cells, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(Name),
		Monotonic: time.Now, cellStates: map[string]cellState{},
		// Only the leader reconciles, so the token of a Cell has one writer, besides a leader that does not know yet that it is none.
		Renewer: &clusters.TokenRenewer{Home: mgr.GetClient(), Live: mgr.GetAPIReader(), Component: "topology", Now: time.Now},
	}
	changed := predicate.TypedFuncs[*v1alpha1.Cell]{UpdateFunc: func(e event.TypedUpdateEvent[*v1alpha1.Cell]) bool {
		// Heartbeats are observed at the next periodic check.
		return e.ObjectOld.Generation != e.ObjectNew.Generation || e.ObjectOld.Status.Cluster != e.ObjectNew.Status.Cluster ||
			e.ObjectOld.DeletionTimestamp.IsZero() != e.ObjectNew.DeletionTimestamp.IsZero()
	}}
	requestsClear := predicate.NewTypedPredicateFuncs(func(p *v1alpha1.PodProtector) bool { return p.Annotations[v1alpha1.AnnotationRemoveCell] != "" })
	if err := errors.Join(
		clusters.AddController(mgr, Name, controller.Options{Reconciler: r, MaxConcurrentReconciles: workers},
			source.Kind(mgr.GetCache(), &v1alpha1.Cell{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.Cell]{}, changed)),
		clusters.AddController(mgr, Name+"-clear", controller.Options{Reconciler: Clearer{r}},
			source.Kind(mgr.GetCache(), &v1alpha1.PodProtector{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.PodProtector]{}, requestsClear)),
	); err != nil {
		return err
	}
	collector := newMetrics(r)
	if err := errors.Join(registry.Register(collector), mgr.Add(collector)); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return clusters.AddReadiness(ctx, mgr, "Cells and PodProtectors", &v1alpha1.Cell{}, &v1alpha1.PodProtector{})
}
