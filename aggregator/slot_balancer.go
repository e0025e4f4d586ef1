package aggregator

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/aggregator/versions"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

const (
	// slotCheckInterval is the interval at which a shard checks which slots the shards have when it was notified of no change.
	slotCheckInterval = 5 * time.Second
)

// slotBalancer claims, counts and releases the slots of a shard (rule 5): it moves them until the shard has those that the ring assigns to
// it. Only maintain and what it calls change which slots the shard has.
type slotBalancer struct {
	l        *leadership
	shard    *ownership.RingShard
	core     coreCluster
	takeover *cellTakeover

	// relistRequests requests another list, and listReceived reports that a list was received.
	relistRequests chan struct{}
	listReceived   atomic.Bool
}

// maintain releases slots that other shards are to have, claims slots that this shard is to have, and reports, until ctx ends.
func (b *slotBalancer) maintain(ctx context.Context) {
	ticker := time.NewTicker(min(slotCheckInterval, b.l.aggregator.options.Heartbeat))
	defer ticker.Stop()
	var reported time.Time
	for {
		if err := b.rebalance(ctx); err != nil && ctx.Err() == nil {
			b.l.log.Error(err, "Failed to rebalance slots")
		}
		if now := b.l.aggregator.clocks.monotonic(); b.listReceived.Swap(false) || !now.Before(reported.Add(b.l.aggregator.options.Heartbeat)) {
			reported = now
			b.l.reconciler.heartbeat.once(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-b.l.ownership.RebalanceRequests:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(ownership.NotificationDelay):
		}
		ownership.DiscardNotification(ticker.C)
		ownership.DiscardNotification(b.l.ownership.RebalanceRequests)
	}
}

// rebalance releases and claims slots until the shard has those that it is to have.
func (b *slotBalancer) rebalance(ctx context.Context) error {
	shards, known := b.shard.Shards(ctx)
	if !known || !shards.IsAvailable(b.shard.Name()) {
		return nil // the slots that the other shards are to have are unknown too
	}
	cell, err := b.readCell(ctx)
	if err != nil {
		return err
	}
	wanted, recorded := slot.ByShard(shards)[b.shard.Name()], b.recorded(cell)
	has, closing := b.l.ownership.Slots.Claimed()
	// The shard gives up slots that the record does not assign to it, slots with a later epoch, and slots that it is not to have.
	if stop := has.Minus(recorded).Or(closing).Or(has.Minus(wanted)); !stop.Empty() {
		b.release(stop)
		has = has.Minus(stop)
	}
	if has == wanted && recorded == wanted || !b.l.ownership.Incarnation.IsHeld() {
		return nil
	}
	return b.claim(ctx, shards, has, wanted)
}

// recorded returns the slots that the Cell records for this incarnation.
func (b *slotBalancer) recorded(cell *v1alpha1.Cell) slot.Set {
	return slot.HeldBy(ownership.Holdings(cell), b.shard.Name(), b.l.ownership.Incarnation.Holder)
}

// readCell reads the Cell for a report and sets its seen version. It ends the leadership if the leadership's knowledge is void.
func (b *slotBalancer) readCell(ctx context.Context) (*v1alpha1.Cell, error) {
	cell := &v1alpha1.Cell{}
	if err := b.core.reader.Get(ctx, client.ObjectKey{Name: b.l.start.cell.Name}, cell); err != nil {
		return nil, fmt.Errorf("read Cell %s: %w", b.l.start.cell.Name, err)
	}
	entry := ownership.EntryOf(cell, b.shard.Name())
	switch {
	case entry == nil || entry.Holder != b.l.ownership.Incarnation.Holder:
		b.l.stop(errors.New("the Cell has no entry of this shard any more"))
	case cell.UID != b.l.start.cell.UID:
		b.l.stop(errRecreated)
	default:
		recordedElsewhere := versions.Parse(cell.Status.Aggregator.RestoredVersion) > b.l.start.restored // another shard has recorded a restore
		if err := versions.RecordSeen(cell); err == nil && !recordedElsewhere {
			return cell, nil
		}
		b.l.stop(versions.ErrRestored)
	}
	return nil, errDeposed
}

// claim writes that the shard has its remaining slots and, of those that it is to have, the ones that it may take. The slots it takes
// get an epoch above all stored ones. An earlier holder that has not noticed yet is refused as soon as their protectors carry the new
// epoch.
func (b *slotBalancer) claim(ctx context.Context, shards *ring.Shards, has, wanted slot.Set) error {
	var claimed slot.Set
	var epoch int64
	err := retry.RetryOnConflict(writeBackoff(b.shard.Name()), func() error {
		cell, err := b.readCell(ctx)
		if err != nil {
			return err
		}
		if !has.Minus(b.recorded(cell)).Empty() {
			return errors.New("another shard took slots meanwhile")
		}
		isDead := b.deadShards(ctx, cell, shards)
		claimed = slot.Claimable(b.shard.Name(), wanted.Minus(has), ownership.Holdings(cell), isDead)
		slots := has.Or(claimed)
		if slots == b.recorded(cell) && claimed.Empty() {
			return nil
		}
		ownership.AssignSlots(cell, b.shard.Name(), slots, isDead)
		epoch = cell.Status.Aggregator.Epoch
		if !claimed.Empty() {
			epoch = max(epoch, b.takeover.highestStoredEpoch(), b.l.ownership.HighestForeignEpoch.Load(), b.takeover.highestOwnEpoch) + 1
			cell.Status.Aggregator.Epoch, cell.Status.Aggregator.Holder = epoch, b.l.ownership.Incarnation.Holder
			ownership.EntryOf(cell, b.shard.Name()).Epoch = epoch
		}
		ownership.SumShards(cell)
		return b.core.client.Status().Update(ctx, cell)
	})
	if err != nil {
		return fmt.Errorf("claim slots of Cell %s: %w", b.l.start.cell.Name, err)
	}
	if claimed.Empty() {
		return nil
	}
	b.takeover.highestOwnEpoch = epoch
	b.begin(ctx, claimed, epoch)
	return nil
}

// deadShards returns a function that reports whether a shard that has slots has certainly stopped. It judges a shard of another ring by
// its heartbeats alone.
func (b *slotBalancer) deadShards(ctx context.Context, cell *v1alpha1.Cell, shards *ring.Shards) func(shard string) bool {
	checked := map[string]bool{}
	return func(shard string) bool {
		if dead, isKnown := checked[shard]; isKnown || shards.IsAvailable(shard) {
			return dead
		}
		entry := ownership.EntryOf(cell, shard)
		if entry.Ring != b.shard.Ring() {
			checked[shard] = b.takeover.holders.isSilent("shard "+shard, heartbeatOf(entry), conflictTimeout)
			return checked[shard]
		}
		// The watched Leases may lag: they contain no shard that has just joined.
		stopped, err := b.shard.IsStopped(ctx, shard)
		if err != nil {
			b.l.log.Error(err, "Failed to check whether a shard has stopped; leaving its slots", "shard", shard)
		}
		checked[shard] = err == nil && stopped
		return checked[shard]
	}
}
