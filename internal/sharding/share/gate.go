package share

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// Gate stands before a reconciler and lets in what is in namespaces that are this shard's. All shards hear of everything; what is
// another's waits here, each key once, until its slot is taken, so that what another one did not come to do is not forgotten.
type Gate[K comparable] struct {
	// Reconciler does the work.
	reconcile.TypedReconciler[K]
	// Share tells what is this shard's; nil is all.
	Share *Share
	// Namespace is that of a key.
	Namespace func(K) string
	// Beside is done for what is another's; nil is nothing.
	Beside func(context.Context, K) (reconcile.Result, error)

	mu      sync.Mutex
	waiting map[int]map[K]struct{}
}

// OfRequests is a gate of objects.
func OfRequests(own *Share, reconciler reconcile.Reconciler) *Gate[reconcile.Request] {
	return &Gate[reconcile.Request]{
		TypedReconciler: reconciler, Share: own, Namespace: func(request reconcile.Request) string { return request.Namespace },
	}
}

// Reconcile implements reconcile.TypedReconciler.
func (g *Gate[K]) Reconcile(ctx context.Context, key K) (reconcile.Result, error) {
	if g.Share == nil {
		return g.TypedReconciler.Reconcile(ctx, key)
	}
	leave, ok := g.Share.Enter(g.Namespace(key))
	if !ok {
		g.await(key)
		// It may have been taken just before, and let in what waited then.
		leave, ok = g.Share.Enter(g.Namespace(key))
	}
	switch {
	case ok:
		defer leave()
		return g.TypedReconciler.Reconcile(ctx, key)
	case g.Beside != nil:
		return g.Beside(ctx, key)
	default:
		return reconcile.Result{}, nil
	}
}

func (g *Gate[K]) await(key K) {
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

// Source lets in what has waited, when its slot is taken. The reconciler's controller must watch it.
func (g *Gate[K]) Source() source.TypedSource[K] {
	return source.TypedFunc[K](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[K]) error {
		if g.Share == nil {
			return nil
		}
		g.Share.tell(func(taken slot.Set) {
			for _, key := range g.in(taken) {
				queue.Add(key)
			}
		})
		return nil
	})
}

// in takes out what waits in some slots.
func (g *Gate[K]) in(slots slot.Set) []K {
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
