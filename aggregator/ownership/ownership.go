package ownership

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// Ownership is the part of a cell whose protectors a leadership counts and writes: the whole cell, or the slots of a shard. It is safe for
// concurrent use.
type Ownership interface {
	// BeginWork begins work on a protector of a namespace. It returns false if the leadership does not have the slot. EndWork must be
	// called after work that began.
	BeginWork(namespace string) bool
	EndWork(namespace string)
	// Owns reports whether the leadership has the protectors of a namespace.
	Owns(namespace string) bool
	// CanWrite reports whether it still has them. It must be called directly before a write.
	CanWrite(namespace string) bool
	// WritableSlots returns the slots whose protectors it can write.
	WritableSlots() slot.Set
	// OwnedSince returns since when the leadership has had them.
	OwnedSince(namespace string) time.Time
	// EpochOf returns the epoch for writes to a namespace's protectors (rule 5).
	EpochOf(namespace string) int64
	// Holder returns the name under which the leadership writes.
	Holder() string
	// ObserveEpoch records an epoch of another holder.
	ObserveEpoch(epoch int64)
	// StopDeposed ends the part of the leadership that a later leader, or shard, has written.
	StopDeposed(namespace string, cause error)
}

// WholeCell is the ownership of a leader that counts a cell alone.
type WholeCell struct {
	Epoch    int64
	Identity string
	// BeganAt is when the leadership began, on the monotonic clock.
	BeganAt time.Time
	// Stop ends the leadership, for a reason.
	Stop context.CancelCauseFunc
}

// BeginWork implements Ownership.
func (*WholeCell) BeginWork(string) bool { return true }

// EndWork implements Ownership.
func (*WholeCell) EndWork(string) {}

// Owns implements Ownership.
func (*WholeCell) Owns(string) bool { return true }

// CanWrite implements Ownership.
func (*WholeCell) CanWrite(string) bool { return true }

// WritableSlots implements Ownership.
func (*WholeCell) WritableSlots() slot.Set { return slot.All() }

// OwnedSince implements Ownership.
func (w *WholeCell) OwnedSince(string) time.Time { return w.BeganAt }

// EpochOf implements Ownership.
func (w *WholeCell) EpochOf(string) int64 { return w.Epoch }

// Holder implements Ownership.
func (w *WholeCell) Holder() string { return w.Identity }

// ObserveEpoch does nothing: the next leadership gets an epoch above all stored ones.
func (*WholeCell) ObserveEpoch(int64) {}

// StopDeposed ends the whole leadership.
func (w *WholeCell) StopDeposed(_ string, cause error) { w.Stop(cause) }

// Shard is the ownership of one incarnation of a shard: the slots that it has claimed.
type Shard struct {
	Slots       *claims
	Incarnation *Incarnation
	// HighestForeignEpoch is the highest epoch that was found above one of its own.
	HighestForeignEpoch atomic.Int64
	// RebalanceRequests requests a check of which slots the shards have.
	RebalanceRequests chan struct{}
	log               logr.Logger
}

// NewShard returns the ownership of an incarnation that has no slots yet.
func NewShard(incarnation *Incarnation, log logr.Logger) *Shard {
	return &Shard{Slots: newClaims(), Incarnation: incarnation, RebalanceRequests: make(chan struct{}, 1), log: log}
}

// BeginWork implements Ownership.
func (o *Shard) BeginWork(namespace string) bool {
	return o.Slots.beginWork(slot.Of(namespace))
}

// EndWork implements Ownership.
func (o *Shard) EndWork(namespace string) { o.Slots.endWork(slot.Of(namespace)) }

// Owns implements Ownership.
func (o *Shard) Owns(namespace string) bool { return o.Slots.isOpen(slot.Of(namespace)) }

// CanWrite also requires the Lease. Other shards may consider a shard whose Lease has expired dead.
func (o *Shard) CanWrite(namespace string) bool {
	return o.Slots.isOpen(slot.Of(namespace)) && o.Incarnation.IsHeld()
}

// WritableSlots implements Ownership.
func (o *Shard) WritableSlots() slot.Set {
	if !o.Incarnation.IsHeld() {
		return slot.Set{}
	}
	claimed, closing := o.Slots.Claimed()
	return claimed.Minus(closing)
}

// OwnedSince returns when the slot was claimed.
func (o *Shard) OwnedSince(namespace string) time.Time {
	return o.Slots.claimOf(slot.Of(namespace)).claimedAt
}

// EpochOf returns the epoch of the slot's claim.
func (o *Shard) EpochOf(namespace string) int64 {
	return o.Slots.claimOf(slot.Of(namespace)).epoch
}

// Holder implements Ownership.
func (o *Shard) Holder() string { return o.Incarnation.Holder }

// ObserveEpoch makes the next claims use a higher epoch.
func (o *Shard) ObserveEpoch(epoch int64) {
	for highest := o.HighestForeignEpoch.Load(); epoch > highest && !o.HighestForeignEpoch.CompareAndSwap(highest, epoch); highest = o.HighestForeignEpoch.Load() {
	}
}

// StopDeposed gives up the slot.
func (o *Shard) StopDeposed(namespace string, cause error) {
	o.log.Info("Lost a slot to another shard", "slot", slot.Of(namespace), "reason", cause.Error())
	o.Slots.close(slot.Set{}.With(slot.Of(namespace)))
	o.RequestRebalance()
}

// RequestRebalance requests a check of which slots the shards have.
func (o *Shard) RequestRebalance() { Notify(o.RebalanceRequests) }
