package aggregator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

const (
	// slotCheckInterval is the interval at which a shard checks which slots the shards have when it was notified of no change.
	slotCheckInterval = 5 * time.Second
	// notificationDelay is how long it waits after a notification, so that it handles several changes at once.
	notificationDelay = 10 * time.Millisecond
)

// maintainSlots releases slots that other shards are to have, claims slots that this shard is to have, and reports, until ctx ends.
func (l *leadership) maintainSlots(ctx context.Context) {
	ticker := time.NewTicker(min(slotCheckInterval, l.options.Heartbeat))
	defer ticker.Stop()
	var reported time.Time
	for {
		if err := l.rebalance(ctx); err != nil && ctx.Err() == nil {
			l.log.Error(err, "Failed to rebalance slots")
		}
		if now := l.monotonic(); l.listReceived.Swap(false) || !now.Before(reported.Add(l.options.Heartbeat)) {
			reported = now
			l.heartbeatOnce(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-l.rebalanceRequests:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(notificationDelay):
		}
		discardNotification(ticker.C)
		discardNotification(l.rebalanceRequests)
	}
}

// discardNotification discards a notification that arrived in the meantime, which the coming round covers.
func discardNotification[T any](from <-chan T) {
	select {
	case <-from:
	default:
	}
}

// rebalance releases and claims slots until the shard has those that it is to have.
func (l *leadership) rebalance(ctx context.Context) error {
	shards, known := l.options.Membership.Shards(ctx)
	if !known || !shards.IsAvailable(l.options.Membership.Name()) {
		return nil // the slots that the other shards are to have are unknown too
	}
	cell, err := l.readSharedCell(ctx)
	if err != nil {
		return err
	}
	wanted, recorded := slot.Shares(shards)[l.options.Membership.Name()], l.recordedSlots(cell)
	has, closing := l.ownership.claimed()
	// The shard gives up slots that the record does not assign to it, slots with a later epoch, and slots that it is not to have.
	if stop := has.Minus(recorded).Or(closing).Or(has.Minus(wanted)); !stop.Empty() {
		l.releaseSlots(stop)
		has = has.Minus(stop)
	}
	if has == wanted && recorded == wanted || !l.incarnation.IsHeld() {
		return nil
	}
	return l.claimSlots(ctx, shards, has, wanted)
}

// recordedSlots returns the slots that the Cell records for this incarnation.
func (l *leadership) recordedSlots(cell *v1alpha1.Cell) slot.Set {
	return slotsOf(cell, l.options.Membership.Name(), l.incarnation.Holder)
}

// readSharedCell reads the Cell for a report and sets its seen version. It ends the leadership if the leadership's knowledge is void.
func (l *leadership) readSharedCell(ctx context.Context) (*v1alpha1.Cell, error) {
	cell := &v1alpha1.Cell{}
	if err := l.coreReader.Get(ctx, client.ObjectKey{Name: l.options.Cell}, cell); err != nil {
		return nil, fmt.Errorf("read Cell %s: %w", l.options.Cell, err)
	}
	entry := entryOf(cell, l.options.Membership.Name())
	switch {
	case entry == nil || entry.Holder != l.incarnation.Holder:
		l.stop(errors.New("the Cell has no entry of this shard any more"))
	case cell.UID != l.cell.UID:
		l.stop(errRecreated)
	default:
		recordedElsewhere := parseVersion(cell.Status.Aggregator.RestoredVersion) > l.restored // another shard has recorded a restore
		if err := recordSeenVersion(cell); err == nil && !recordedElsewhere {
			return cell, nil
		}
		l.stop(errRestored)
	}
	return nil, errDeposed
}

// claimSlots writes that the shard has its remaining slots and, of those that it is to have, the ones that it may take. The slots it takes
// get an epoch above all stored ones. An earlier holder that has not noticed yet is refused as soon as their protectors carry the new
// epoch.
func (l *leadership) claimSlots(ctx context.Context, shards *ring.Shards, has, wanted slot.Set) error {
	var claimed slot.Set
	var epoch int64
	err := retry.RetryOnConflict(l.writeBackoff(), func() error {
		cell, err := l.readSharedCell(ctx)
		if err != nil {
			return err
		}
		if !has.Minus(l.recordedSlots(cell)).Empty() {
			return errors.New("another shard took slots meanwhile")
		}
		isDead := l.deadShards(ctx, cell, shards)
		claimed = slot.Claimable(l.options.Membership.Name(), wanted.Minus(has), holdings(cell), isDead)
		slots := has.Or(claimed)
		if slots == l.recordedSlots(cell) && claimed.Empty() {
			return nil
		}
		assignSlots(cell, l.options.Membership.Name(), slots, isDead)
		epoch = cell.Status.Aggregator.Epoch
		if !claimed.Empty() {
			epoch = max(epoch, l.highestStoredEpoch(), l.highestForeignEpoch.Load(), l.Aggregator.epoch) + 1
			cell.Status.Aggregator.Epoch, cell.Status.Aggregator.Holder = epoch, l.incarnation.Holder
			entryOf(cell, l.options.Membership.Name()).Epoch = epoch
		}
		sumShards(cell)
		return l.coreClient.Status().Update(ctx, cell)
	})
	if err != nil {
		return fmt.Errorf("claim slots of Cell %s: %w", l.options.Cell, err)
	}
	if claimed.Empty() {
		return nil
	}
	l.Aggregator.epoch = epoch
	l.beginSlots(ctx, claimed, epoch)
	return nil
}

// keepCached makes the cache keep the protectors of the slots that the leadership has, and of the slots in more.
func (l *leadership) keepCached(more slot.Set) {
	has, _ := l.ownership.claimed()
	l.options.Interest.Set(l.options.Cell, has.Or(more))
}

const (
	// fullListThreshold is the number of slots from which listing all protectors of the core is cheaper than reading those of the slots one
	// by one.
	fullListThreshold = slot.Count / 16
	// protectorPage is the page size for listing protectors.
	protectorPage = 500
)

// fetchProtectors lists the protectors that the cache has left out and that the leadership now works on. The leadership reads protectors that this list
// misses one by one.
func (l *leadership) fetchProtectors(ctx context.Context) {
	if l.options.Interest == nil {
		return
	}
	for page := (&v1alpha1.PodProtectorList{}); ; {
		token := page.Continue
		page = &v1alpha1.PodProtectorList{}
		if err := l.coreReader.List(ctx, page, client.Limit(protectorPage), client.Continue(token)); err != nil {
			l.log.Error(err, "Failed to list protectors; reading them one by one")
			return
		}
		for i := range page.Items {
			l.options.Interest.RestoreIncluded(l.informer.GetStore(), &page.Items[i])
		}
		if page.Continue == "" {
			return
		}
	}
}

// beginSlots starts counting slots that were claimed, as soon as their pods are listed.
func (l *leadership) beginSlots(ctx context.Context, slots slot.Set, epoch int64) {
	l.log.Info("Claimed slots", "slots", slots.String(), "epoch", epoch)
	l.keepCached(slots)
	if slots.Len() >= fullListThreshold {
		l.fetchProtectors(ctx)
	}
	l.expectInitialCounts(func(namespace string) bool { return slots.Has(slot.Of(namespace)) })
	l.ownership.add(slots, epoch, l.monotonic())
	l.snapshot.AddSlots(slots) // any list that begins from here on is recent enough for the protectors noted above
	notify(l.relistRequests)
	all, _ := l.ownership.claimed()
	l.metrics.leading.Set(1)
	l.metrics.epoch.Set(float64(epoch))
	l.metrics.slots.Set(float64(all.Len()))
}

// deadShards returns a function that reports whether a shard that has slots has certainly stopped. It judges a shard of another ring by
// its heartbeats alone.
func (l *leadership) deadShards(ctx context.Context, cell *v1alpha1.Cell, shards *ring.Shards) func(shard string) bool {
	checked := map[string]bool{}
	return func(shard string) bool {
		if dead, isKnown := checked[shard]; isKnown || shards.IsAvailable(shard) {
			return dead
		}
		entry := entryOf(cell, shard)
		if entry.Ring != l.options.Membership.Ring() {
			checked[shard] = l.isSilent("shard "+shard, heartbeatOf(entry), conflictTimeout)
			return checked[shard]
		}
		// The watched Leases may lag: they contain no shard that has just joined.
		stopped, err := l.options.Membership.IsStopped(ctx, shard)
		if err != nil {
			l.log.Error(err, "Failed to check whether a shard has stopped; leaving its slots", "shard", shard)
		}
		checked[shard] = err == nil && stopped
		return checked[shard]
	}
}

// writeShardHeartbeat writes a heartbeat into the shard's entry.
func (l *leadership) writeShardHeartbeat(ctx context.Context) error {
	return retry.RetryOnConflict(l.writeBackoff(), func() error {
		cell, err := l.readSharedCell(ctx)
		if err != nil {
			return err
		}
		l.applyCell(cell)
		if has, _ := l.ownership.claimed(); !has.Minus(l.recordedSlots(cell)).Empty() {
			l.requestRebalance()
		}
		pods, protectors := l.snapshot.Size()
		l.metrics.pods.Set(float64(pods))
		l.metrics.protectors.Set(float64(protectors))
		l.metrics.forceDeletable.Set(float64(l.snapshot.ForceDeletable()))
		now := metav1.NewMicroTime(l.now())
		entry := entryOf(cell, l.options.Membership.Name())
		entry.Pods, entry.Protectors, entry.LastHeartbeat = quota.Saturate(pods), quota.Saturate(protectors), &now
		cell.Status.Aggregator.LastHeartbeat = &now
		sumShards(cell)
		return l.coreClient.Status().Update(ctx, cell)
	})
}

// releaseAllSlots releases all slots, so that other shards can take them.
func (l *leadership) releaseAllSlots(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := retry.RetryOnConflict(l.writeBackoff(), func() error {
		cell := &v1alpha1.Cell{}
		if err := l.coreReader.Get(ctx, client.ObjectKey{Name: l.options.Cell}, cell); err != nil {
			return err
		}
		if entry := entryOf(cell, l.options.Membership.Name()); entry == nil || entry.Holder != l.incarnation.Holder {
			return nil
		}
		removeEntry(cell, l.options.Membership.Name())
		sumShards(cell)
		return l.coreClient.Status().Update(ctx, cell)
	})
	if err != nil {
		l.log.V(1).Info("Failed to report the release", "error", err.Error())
	}
}
