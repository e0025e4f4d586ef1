package aggregator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// The shards of a ring can share a cell. Each shard counts the namespaces of some slots, which it claims in the Cell's status
// (slot_claims.go). For their protectors it is what a leader is for all. A claim has an epoch above all stored ones, and the pods of its
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
	mark := a.restoreDetector.Mark()
	state, err := a.joinCell(ctx, incarnation)
	if err != nil {
		if ctx.Err() == nil && err.Error() != a.lastReason {
			a.lastReason = err.Error() // once, and not each second
			a.log.Error(err, "Failed to share the cell")
		}
		return nil
	}
	a.lastReason = ""
	l := a.newLeadership(ctx, state, stop)
	l.ownership, l.incarnation, l.log = newSlotOwnership(), incarnation, a.log.WithValues("holder", incarnation.Holder)
	l.rebalanceRequests, l.relistRequests = make(chan struct{}, 1), make(chan struct{}, 1)
	l.snapshot.keepOnly(l.slotsCovered)
	a.current.Store(l)
	if !a.restoreDetector.IsSameIncarnation(mark) {
		stop(errRestored)
	}
	l.log.Info("Started sharing the cell")
	l.runShard(ctx)
	a.current.Store(nil)
	a.metrics.leading.Set(0)
	a.metrics.slots.Set(0)
	a.metrics.spread.clear()
	l.log.Info("Stopped sharing the cell", "reason", endReason(ctx))
	l.releaseAllSlots(context.WithoutCancel(ctx))
	a.options.Interest.Set(a.options.Cell, slot.Set{})
	return nil
}

// joinCell adds the entry of an incarnation, without slots. The slots of an earlier incarnation become unowned.
func (a *Aggregator) joinCell(ctx context.Context, incarnation *Incarnation) (startState, error) {
	if !toolscache.WaitForCacheSync(ctx.Done(), a.informer.HasSynced) {
		return startState{}, fmt.Errorf("read PodProtectors: %w", context.Cause(ctx))
	}
	state := startState{}
	err := retry.RetryOnConflict(a.writeBackoff(), func() error {
		cell, now, err := a.readCell(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(a.checkCluster(cell), a.awaitLeader(ctx, cell)); err != nil {
			return err
		}
		state.cell, state.restored = cell, parseVersion(cell.Status.Aggregator.RestoredVersion)
		if a.isRestored(cell, now) {
			state.restored = now
			cell.Status.Aggregator.RestoredVersion = formatVersion(now)
		}
		cell.Status.Aggregator.SeenVersion = formatVersion(now)
		addEntry(cell, a.options.Membership.Ring(), a.options.Membership.Name(), incarnation.Holder)
		sumShards(cell)
		return a.coreClient.Status().Update(ctx, cell)
	})
	if apierrors.IsNotFound(err) {
		return state, fmt.Errorf("the core cluster has no Cell %q: create it, or correct --cell", a.options.Cell)
	}
	if err != nil {
		return state, fmt.Errorf("join the shards of Cell %s: %w", a.options.Cell, err)
	}
	state.version = parseVersion(state.cell.ResourceVersion)
	return state, nil
}

// writeBackoff returns the retry backoff for writes of the Cell, which the other shards write too. The delays depend on the shard's
// name.
func (a *Aggregator) writeBackoff() wait.Backoff {
	return wait.Backoff{Steps: 8, Duration: time.Duration(5+slot.Of(a.options.Membership.Name())%16) * time.Millisecond, Factor: 2}
}

func (l *leadership) runShard(ctx context.Context) {
	unregister := l.options.Membership.OnChange(l.requestRebalance)
	defer unregister()
	var running sync.WaitGroup
	running.Go(func() { l.streamSlots(ctx) })
	running.Go(func() { l.watchNodes(ctx) })
	running.Go(func() { l.maintainSlots(ctx) })
	running.Go(func() { l.runTrigger(ctx) })
	for range l.options.Workers {
		running.Go(func() { l.runWorker(ctx) })
	}
	<-ctx.Done()
	l.queue.ShutDown()
	running.Wait()
}

// streamSlots lists the pods again whenever slots were added, and watches from there.
func (l *leadership) streamSlots(ctx context.Context) {
	stop := func() {}
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.relistRequests:
		}
		stop()
		streaming, cancel := context.WithCancel(ctx)
		var stream sync.WaitGroup
		stream.Go(func() { newStream(l.cellClientset, l.snapshot, l.log).RunWithContext(streaming) })
		stop = func() {
			cancel()
			stream.Wait()
		}
	}
}

// slotsCovered enqueues the protectors of slots whose pods are now all in the snapshot.
func (l *leadership) slotsCovered(slots slot.Set) {
	l.log.Info("Started counting slots", "slots", slots.String())
	l.enqueueAll(func(namespace string) bool { return slots.Has(slot.Of(namespace)) })
	l.listReceived.Store(true)
	l.requestRebalance()
}

// requestRebalance requests a check of which slots the shards have.
func (l *leadership) requestRebalance() { notify(l.rebalanceRequests) }

func notify(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

// releaseSlots releases some slots. When it returns, no worker works on them and their state is dropped.
func (l *leadership) releaseSlots(slots slot.Set) {
	l.ownership.release(slots)
	keys := map[types.NamespacedName]bool{}
	l.mu.Lock()
	addKeysIn(slots, l.deadlines, keys)
	addKeysIn(slots, l.initialCounts, keys)
	addKeysIn(slots, l.cleared, keys)
	addKeysIn(slots, l.settleDelays, keys)
	l.mu.Unlock()
	l.workloadIndex.addKeysIn(slots, keys)
	l.metrics.spread.addKeysIn(slots, keys)
	for key := range keys {
		l.forget(key)
	}
	l.snapshot.ReleaseSlots(slots)
	l.keepCached(slot.Set{})
	l.options.Interest.StripExcluded(l.informer.GetStore())
	l.log.Info("Stopped counting slots", "slots", slots.String())
}

// beginWork begins work on a protector of a namespace. It returns false if the leadership does not have the slot.
func (l *leadership) beginWork(namespace string) bool {
	return l.ownership == nil || l.ownership.beginWork(slot.Of(namespace))
}

func (l *leadership) endWork(namespace string) {
	if l.ownership != nil {
		l.ownership.endWork(slot.Of(namespace))
	}
}

// owns reports whether the leadership has the protectors of a namespace.
func (l *leadership) owns(namespace string) bool {
	return l.ownership == nil || l.ownership.isOpen(slot.Of(namespace))
}

// canWrite reports whether it still has them. Other shards may consider a shard whose Lease has expired dead.
func (l *leadership) canWrite(namespace string) bool {
	return l.ownership == nil || l.ownership.isOpen(slot.Of(namespace)) && l.incarnation.IsHeld()
}

// epochOf returns the epoch for writes to a namespace's protectors.
func (l *leadership) epochOf(namespace string) int64 {
	if l.ownership == nil {
		return l.epoch
	}
	return l.ownership.claimOf(slot.Of(namespace)).epoch
}

// ownedSince returns since when the leadership has had them.
func (l *leadership) ownedSince(namespace string) time.Time {
	if l.ownership == nil {
		return l.beganAt
	}
	return l.ownership.claimOf(slot.Of(namespace)).claimedAt
}

// holder returns the name under which the leadership writes.
func (l *leadership) holder() string {
	if l.incarnation == nil {
		return l.options.Identity
	}
	return l.incarnation.Holder
}

// observeEpoch records an epoch of another holder.
func (l *leadership) observeEpoch(epoch int64) {
	for highest := l.highestForeignEpoch.Load(); epoch > highest && !l.highestForeignEpoch.CompareAndSwap(highest, epoch); highest = l.highestForeignEpoch.Load() {
	}
}

// stopDeposed ends the part of the leadership that a later leader, or shard, has written: the whole leadership, or a slot.
func (l *leadership) stopDeposed(namespace string, cause error) {
	if l.ownership == nil {
		l.stop(cause)
		return
	}
	l.log.Info("Lost a slot to another shard", "slot", slot.Of(namespace), "reason", cause.Error())
	l.ownership.close(slot.Set{}.With(slot.Of(namespace)))
	l.requestRebalance()
}

// isListed reports whether pods were listed, if there are any to count.
func (l *leadership) isListed() bool {
	if l.ownership != nil {
		if all, _ := l.ownership.claimed(); all.Empty() {
			return true
		}
	}
	return l.snapshot.Listed()
}

// isComplete reports whether the snapshot has the pods of all slots. A heartbeat confirms the counts of all of them.
func (l *leadership) isComplete() bool {
	if l.ownership == nil {
		return true
	}
	all, _ := l.ownership.claimed()
	return l.snapshot.CoversSlots(all)
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
		if l := a.current.Load(); ok && l != nil && cell.Name == a.options.Cell && !slices.Equal(holdings(old), holdings(cell)) {
			l.requestRebalance()
		}
	}})
	if err != nil {
		return fmt.Errorf("watch Cells: %w", err)
	}
	a.removeCellHandler = func() error { return informer.RemoveEventHandler(handler) }
	return nil
}
