package aggregator

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// enqueuer enqueues protectors when something changes that their counts depend on. Its methods do not block, except recountAfterSteps.
type enqueuer struct {
	cell      string
	queue     workqueue.TypedRateLimitingInterface[types.NamespacedName]
	informer  toolscache.SharedIndexInformer
	ownership *ownership.Ownership
	rounds    *roundTracer
	clock     *steadyClock
	log       logr.Logger
}

// enqueueAll enqueues the existing protectors of some namespaces, in the order of their names.
func (e *enqueuer) enqueueAll(in func(namespace string) bool) {
	for _, name := range slices.Sorted(slices.Values(e.informer.GetStore().ListKeys())) {
		namespace, name, err := toolscache.SplitMetaNamespaceKey(name)
		if err == nil && in(namespace) {
			e.queue.Add(types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
}

// podsChanged enqueues a protector after wait, so that a burst of events becomes one write.
func (e *enqueuer) podsChanged(key types.NamespacedName, wait time.Duration) {
	e.rounds.recordEvent(key)
	e.queue.AddAfter(key, wait)
}

// hasNoBudget uses the protector that the watch has shown.
func (e *enqueuer) hasNoBudget(key types.NamespacedName) bool {
	found, _, _ := e.informer.GetStore().GetByKey(key.String())
	p, ok := found.(*v1alpha1.PodProtector)
	return ok && p.Status.DisruptionsAllowed == 0
}

// protectorChanged also waits, unless the pods must now be counted differently or the protector is being deleted.
func (e *enqueuer) protectorChanged(p *v1alpha1.PodProtector) {
	if !e.ownership.Owns(p.Namespace) {
		return
	}
	e.rounds.recordEvent(client.ObjectKeyFromObject(p))
	if mustCount(p, e.cell) || p.DeletionTimestamp != nil {
		e.queue.Add(client.ObjectKeyFromObject(p))
		return
	}
	e.queue.AddAfter(client.ObjectKeyFromObject(p), p.Spec.AdmissionHistory.AggregationRateOrDefault())
}

// recountAfterSteps recounts protectors after each step back of the clock, until ctx ends: some pods that were available no longer are,
// and no event reports that.
func (e *enqueuer) recountAfterSteps(ctx context.Context) {
	_ = wait.PollUntilContextCancel(ctx, clockReadEvery, false, func(context.Context) (bool, error) { // it ends with ctx
		if e.clock.wasSetBack() {
			e.log.Info("Detected a clock step back; recounting protectors with minReadySeconds")
			e.recountAged()
		}
		return false, nil
	})
}

// recountAged enqueues the protectors that count pods by how long they have been ready.
func (e *enqueuer) recountAged() {
	for _, found := range e.informer.GetStore().List() {
		if p, ok := found.(*v1alpha1.PodProtector); ok && p.Spec.MinReadySeconds > 0 && e.ownership.Owns(p.Namespace) {
			e.queue.Add(client.ObjectKeyFromObject(p))
		}
	}
}
