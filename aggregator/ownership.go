package aggregator

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// ownership is the part of a cell whose protectors a leadership counts and writes: the whole cell, or the slots of a shard. It is safe for
// concurrent use.
type ownership interface {
	// beginWork begins work on a protector of a namespace. It returns false if the leadership does not have the slot. endWork must be
	// called after work that began.
	beginWork(namespace string) bool
	endWork(namespace string)
	// owns reports whether the leadership has the protectors of a namespace.
	owns(namespace string) bool
	// canWrite reports whether it still has them. It must be called directly before a write.
	canWrite(namespace string) bool
	// writableSlots returns the slots whose protectors it can write.
	writableSlots() slot.Set
	// ownedSince returns since when the leadership has had them.
	ownedSince(namespace string) time.Time
	// epochOf returns the epoch for writes to a namespace's protectors (rule 5).
	epochOf(namespace string) int64
	// holder returns the name under which the leadership writes.
	holder() string
	// observeEpoch records an epoch of another holder.
	observeEpoch(epoch int64)
	// stopDeposed ends the part of the leadership that a later leader, or shard, has written.
	stopDeposed(namespace string, cause error)
}

// wholeCell is the ownership of a leader that counts a cell alone.
type wholeCell struct {
	epoch    int64
	identity string
	// beganAt is when the leadership began, on the monotonic clock.
	beganAt time.Time
	// stop ends the leadership, for a reason.
	stop context.CancelCauseFunc
}

func (*wholeCell) beginWork(string) bool         { return true }
func (*wholeCell) endWork(string)                {}
func (*wholeCell) owns(string) bool              { return true }
func (*wholeCell) canWrite(string) bool          { return true }
func (*wholeCell) writableSlots() slot.Set       { return slot.All() }
func (w *wholeCell) ownedSince(string) time.Time { return w.beganAt }
func (w *wholeCell) epochOf(string) int64        { return w.epoch }
func (w *wholeCell) holder() string              { return w.identity }

// observeEpoch does nothing: the next leadership gets an epoch above all stored ones.
func (*wholeCell) observeEpoch(int64) {}

// stopDeposed ends the whole leadership.
func (w *wholeCell) stopDeposed(_ string, cause error) { w.stop(cause) }

// shardOwnership is the ownership of one incarnation of a shard: the slots that it has claimed.
type shardOwnership struct {
	slots       *slotOwnership
	incarnation *Incarnation
	// highestForeignEpoch is the highest epoch that was found above one of its own.
	highestForeignEpoch atomic.Int64
	// rebalanceRequests requests a check of which slots the shards have.
	rebalanceRequests chan struct{}
	log               logr.Logger
}

func newShardOwnership(incarnation *Incarnation, log logr.Logger) *shardOwnership {
	return &shardOwnership{slots: newSlotOwnership(), incarnation: incarnation, rebalanceRequests: make(chan struct{}, 1), log: log}
}

func (o *shardOwnership) beginWork(namespace string) bool {
	return o.slots.beginWork(slot.Of(namespace))
}
func (o *shardOwnership) endWork(namespace string)   { o.slots.endWork(slot.Of(namespace)) }
func (o *shardOwnership) owns(namespace string) bool { return o.slots.isOpen(slot.Of(namespace)) }

// canWrite also requires the Lease. Other shards may consider a shard whose Lease has expired dead.
func (o *shardOwnership) canWrite(namespace string) bool {
	return o.slots.isOpen(slot.Of(namespace)) && o.incarnation.IsHeld()
}

func (o *shardOwnership) writableSlots() slot.Set {
	if !o.incarnation.IsHeld() {
		return slot.Set{}
	}
	claimed, closing := o.slots.claimed()
	return claimed.Minus(closing)
}

// ownedSince returns when the slot was claimed.
func (o *shardOwnership) ownedSince(namespace string) time.Time {
	return o.slots.claimOf(slot.Of(namespace)).claimedAt
}

// epochOf returns the epoch of the slot's claim.
func (o *shardOwnership) epochOf(namespace string) int64 {
	return o.slots.claimOf(slot.Of(namespace)).epoch
}

func (o *shardOwnership) holder() string { return o.incarnation.Holder }

// observeEpoch makes the next claims use a higher epoch.
func (o *shardOwnership) observeEpoch(epoch int64) {
	for highest := o.highestForeignEpoch.Load(); epoch > highest && !o.highestForeignEpoch.CompareAndSwap(highest, epoch); highest = o.highestForeignEpoch.Load() {
	}
}

// stopDeposed gives up the slot.
func (o *shardOwnership) stopDeposed(namespace string, cause error) {
	o.log.Info("Lost a slot to another shard", "slot", slot.Of(namespace), "reason", cause.Error())
	o.slots.close(slot.Set{}.With(slot.Of(namespace)))
	o.requestRebalance()
}

// requestRebalance requests a check of which slots the shards have.
func (o *shardOwnership) requestRebalance() { notify(o.rebalanceRequests) }
