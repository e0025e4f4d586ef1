package aggregator

import (
	"context"
	"fmt"
	"slices"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/aggregator/versions"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// The shards of a ring can share a cell. Each shard counts the namespaces of some slots, which it claims in the Cell's status
// (slot_balancer.go). For their protectors it is what a leader is for all. A claim has an epoch above all stored ones, and the pods of its
// slots are listed again before any count uses them. An earlier holder of a slot is refused once the slot's protectors carry the new
// epoch. While no shard has a slot, no component drops reservations there, and its budgets only shrink.

// runShardOnce works on the cell for as long as one incarnation of the shard lasts, or until the leadership's knowledge is void.
func (a *Aggregator) runShardOnce(ctx context.Context) error {
	incarnation, err := a.options.Membership.Join(ctx)
	if err != nil {
		return nil //nolint:nilerr // the context has ended
	}
	defer incarnation.Done()
	a.oneLeadership <- struct{}{}
	defer func() { <-a.oneLeadership }()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(incarnation.Context, func() { stop(context.Cause(incarnation.Context)) })()
	mark := a.core.restores.Mark()
	state, err := a.takeover.join(ctx, incarnation)
	if err != nil {
		if ctx.Err() == nil && err.Error() != a.takeover.lastReason {
			a.takeover.lastReason = err.Error() // once, and not each second
			a.log.Error(err, "Failed to share the cell")
		}
		return nil
	}
	a.takeover.lastReason = ""
	log := a.log.WithValues("holder", incarnation.Holder)
	l := a.newLeadership(ctx, state, ownership.OfShard(incarnation, log), log, stop)
	a.claimSlots(l)
	a.current.Store(l)
	if !a.core.restores.IsSameIncarnation(mark) {
		stop(versions.ErrRestored)
	}
	l.log.Info("Started sharing the cell")
	l.runShard(ctx)
	a.current.Store(nil)
	a.metrics.leading.Set(0)
	a.metrics.slots.Set(0)
	a.metrics.spread.records.Clear()
	l.log.Info("Stopped sharing the cell", "reason", endReason(ctx))
	l.slots.releaseAll(context.WithoutCancel(ctx))
	a.options.Interest.Set(a.options.Cell, slot.Set{})
	return nil
}

// claimSlots makes a leadership claim its slots, and the heartbeat write them.
func (a *Aggregator) claimSlots(l *leadership) {
	l.slots = &slotBalancer{l: l, shard: a.options.Membership, core: a.core, takeover: a.takeover, relistRequests: make(chan struct{}, 1)}
	l.reconciler.heartbeat.write = l.slots.writeHeartbeat
	l.reconciler.heartbeat.isComplete = func() bool {
		all, _ := l.ownership.Slots.Claimed()
		return l.snapshot.CoversSlots(all)
	}
	l.snapshot.KeepOnly(l.slots.covered)
}

func (l *leadership) runShard(ctx context.Context) {
	unregister := l.aggregator.options.Membership.OnChange(l.ownership.RequestRebalance)
	defer unregister()
	var running sync.WaitGroup
	running.Go(func() { l.slots.stream(ctx) })
	running.Go(func() { l.snapshot.WatchNodes(ctx, l.aggregator.cell.metadata, l.log) })
	running.Go(func() { l.slots.maintain(ctx) })
	l.startParts(ctx, &running)
	<-ctx.Done()
	l.enqueuer.queue.ShutDown()
	l.guards.exemptions.ShutDown()
	running.Wait()
}

// watchSlotOwnership checks which slots the shards have whenever that has changed, so that a shard takes at once what another one releases.
func (a *Aggregator) watchSlotOwnership(ctx context.Context, mgr manager.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.Cell{})
	if err != nil {
		return fmt.Errorf("watch Cells: %w", err)
	}
	handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
		old, _ := before.(*v1alpha1.Cell)
		cell, ok := after.(*v1alpha1.Cell)
		if l := a.current.Load(); ok && l != nil && cell.Name == a.options.Cell && !slices.Equal(ownership.Holdings(old), ownership.Holdings(cell)) {
			l.ownership.RequestRebalance()
		}
	}})
	if err != nil {
		return fmt.Errorf("watch Cells: %w", err)
	}
	a.handlers = append(a.handlers, func() error { return informer.RemoveEventHandler(handler) })
	return nil
}
