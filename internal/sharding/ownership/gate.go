package ownership

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// Gate wraps a reconciler and passes on only keys in namespaces of this shard. All shards see all events. A key of another shard
// waits here, each key once, until this shard takes its slot, so that work that the other shard did not finish is not lost.
type Gate[K comparable] struct {
	// Reconciler does the work.
	reconcile.TypedReconciler[K]
	// Slots determine which namespaces belong to this shard. nil means all.
	Slots *Slots
	// Namespace returns the namespace of a key.
	Namespace func(K) string
	// OnForeignKey is called for keys of other shards. nil means to do nothing.
	OnForeignKey func(context.Context, K) (reconcile.Result, error)

	mu      sync.Mutex
	waiting map[int]map[K]struct{}
}

// GateRequests returns a Gate for requests, which are keyed by object.
func GateRequests(own *Slots, reconciler reconcile.Reconciler) *Gate[reconcile.Request] {
	return &Gate[reconcile.Request]{
		TypedReconciler: reconciler, Slots: own, Namespace: func(request reconcile.Request) string { return request.Namespace },
	}
}

// Reconcile implements reconcile.TypedReconciler.
func (g *Gate[K]) Reconcile(ctx context.Context, key K) (reconcile.Result, error) {
	if g.Slots == nil {
		return g.TypedReconciler.Reconcile(ctx, key)
	}
	leave, ok := g.Slots.Enter(g.Namespace(key))
	if !ok {
		g.addWaiting(key)
		// The slot may have been taken just before addWaiting, so that takeWaiting missed the key.
		leave, ok = g.Slots.Enter(g.Namespace(key))
	}
	switch {
	case ok:
		defer leave()
		return g.TypedReconciler.Reconcile(ctx, key)
	case g.OnForeignKey != nil:
		return g.OnForeignKey(ctx, key)
	default:
		return reconcile.Result{}, nil
	}
}

func (g *Gate[K]) addWaiting(key K) {
	n := slot.Of(g.Namespace(key))
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting[n] == nil {
		if g.waiting == nil {
			g.waiting = map[int]map[K]struct{}{}
		}
		g.waiting[n] = map[K]struct{}{}
	}
	g.waiting[n][key] = struct{}{}
}

// Source enqueues the waiting keys of a slot when this shard takes it. The reconciler's controller must watch it.
func (g *Gate[K]) Source() source.TypedSource[K] {
	return source.TypedFunc[K](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[K]) error {
		if g.Slots == nil {
			return nil
		}
		g.Slots.onTake(func(slots slot.Set) {
			for _, key := range g.takeWaiting(slots) {
				queue.Add(key)
			}
		})
		return nil
	})
}

// takeWaiting removes and returns the waiting keys of some slots.
func (g *Gate[K]) takeWaiting(slots slot.Set) []K {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []K
	for n := range slots.Each() {
		for key := range g.waiting[n] {
			all = append(all, key)
		}
		delete(g.waiting, n)
	}
	return all
}
