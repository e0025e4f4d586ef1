package overlap

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ownership"
)

// Setup adds the controller to the manager of a core cluster, beside others that watch PodProtectors. slots specifies the namespaces in which
// it works; nil means all.
func Setup(mgr manager.Manager, slots *ownership.Slots) error {
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(Name), index: newCoverageIndex(),
	}
	gate := ownership.GateRequests(slots, r)
	return clusters.AddController(mgr, Name, controller.Options{Reconciler: gate}, gate.Source(),
		source.Kind(mgr.GetCache(), &v1alpha1.PodProtector{}, r.index.handler()))
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// handler records the coverage of protectors, and enqueues each protector whose overlaps changed.
func (i *coverageIndex) handler() handler.TypedEventHandler[*v1alpha1.PodProtector, reconcile.Request] {
	add := func(q queue, keys ...types.NamespacedName) {
		for _, key := range keys {
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
	set := func(p *v1alpha1.PodProtector, q queue) {
		key := client.ObjectKeyFromObject(p)
		add(q, append(i.set(key, coverageOf(p)), key)...)
	}
	return handler.TypedFuncs[*v1alpha1.PodProtector, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*v1alpha1.PodProtector], q queue) { set(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*v1alpha1.PodProtector], q queue) {
			if hasRelevantChange(e.ObjectOld, e.ObjectNew) {
				set(e.ObjectNew, q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*v1alpha1.PodProtector], q queue) {
			add(q, i.remove(client.ObjectKeyFromObject(e.Object))...)
		},
	}
}
