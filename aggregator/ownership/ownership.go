package ownership

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ownership"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// Ownership is the part of a cell whose protectors a leadership counts and writes: the slots that it has claimed, or all of them. It is safe for
// concurrent use.
type Ownership struct {
	// Slots are the claimed slots.
	Slots *ownership.Claims[Claim]
	// Incarnation is the one of the shard. That of a leader that counts a cell alone is always held: the leader election ends its leadership.
	Incarnation *Incarnation
	// HighestForeignEpoch is the highest epoch that was found above one of its own.
	HighestForeignEpoch atomic.Int64
	// RebalanceRequests requests a check of which slots the shards have.
	RebalanceRequests chan struct{}
	// deposed ends the part of the leadership that a later leader, or shard, has written.
	deposed func(namespace string, cause error)
}

// Claim is the claim of a slot. When shards join and leave, slots that are not moved keep their epochs, so their protectors are not
// rewritten.
type Claim struct {
	Epoch int64
	// ClaimedAt is when the slot was claimed, on the monotonic clock.
	ClaimedAt time.Time
}

// OfLeader returns the ownership of a leader that counts a cell alone since beganAt. stop ends the leadership.
func OfLeader(identity string, epoch int64, beganAt time.Time, stop context.CancelCauseFunc) *Ownership {
	o := &Ownership{Slots: ownership.NewClaims[Claim](), Incarnation: &Incarnation{Holder: identity, IsHeld: func() bool { return true }}}
	o.Slots.Add(slot.All(), Claim{Epoch: epoch, ClaimedAt: beganAt})
	o.deposed = func(_ string, cause error) { stop(cause) }
	return o
}

// OfShard returns the ownership of an incarnation of a shard, which has no slots yet.
func OfShard(incarnation *Incarnation, log logr.Logger) *Ownership {
	o := &Ownership{Slots: ownership.NewClaims[Claim](), Incarnation: incarnation, RebalanceRequests: make(chan struct{}, 1)}
	o.deposed = func(namespace string, cause error) {
		log.Info("Lost a slot to another shard", "slot", slot.Of(namespace), "reason", cause.Error())
		o.Slots.Close(slot.Set{}.With(slot.Of(namespace)))
		o.RequestRebalance()
	}
	return o
}

// BeginWork begins work on a protector of a namespace. It returns false if the leadership does not have the slot. EndWork must be
// called after work that began.
func (o *Ownership) BeginWork(namespace string) bool {
	return o.Slots.BeginWork(slot.Of(namespace))
}

// EndWork ends work on a protector of a namespace.
func (o *Ownership) EndWork(namespace string) { o.Slots.EndWork(slot.Of(namespace)) }

// Owns reports whether the leadership has the protectors of a namespace.
func (o *Ownership) Owns(namespace string) bool { return o.Slots.Open().Has(slot.Of(namespace)) }

// CanWrite also requires the Lease. Other shards may consider a shard whose Lease has expired dead.
func (o *Ownership) CanWrite(namespace string) bool {
	return o.Slots.Open().Has(slot.Of(namespace)) && o.Incarnation.IsHeld()
}

// WritableSlots returns the slots whose protectors the leadership can write.
func (o *Ownership) WritableSlots() slot.Set {
	if !o.Incarnation.IsHeld() {
		return slot.Set{}
	}
	return o.Slots.Open()
}

// OwnedSince returns when the slot was claimed.
func (o *Ownership) OwnedSince(namespace string) time.Time {
	return o.Slots.ValueOf(slot.Of(namespace)).ClaimedAt
}

// EpochOf returns the epoch of the slot's claim.
func (o *Ownership) EpochOf(namespace string) int64 {
	return o.Slots.ValueOf(slot.Of(namespace)).Epoch
}

// Holder returns the name under which the leadership writes.
func (o *Ownership) Holder() string { return o.Incarnation.Holder }

// ObserveEpoch makes the next claims use a higher epoch.
func (o *Ownership) ObserveEpoch(epoch int64) {
	for highest := o.HighestForeignEpoch.Load(); epoch > highest && !o.HighestForeignEpoch.CompareAndSwap(highest, epoch); highest = o.HighestForeignEpoch.Load() {
	}
}

// StopDeposed ends the part of the leadership that a later leader, or shard, has written: a leader stops, and a shard gives up the slot.
func (o *Ownership) StopDeposed(namespace string, cause error) { o.deposed(namespace, cause) }

// RequestRebalance requests a check of which slots the shards have.
func (o *Ownership) RequestRebalance() { Notify(o.RebalanceRequests) }
