package ownership

import (
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// claims is the set of slots that a leadership has claimed, in a cell that shards share. Each slot has the epoch of its claim. When
// shards join and leave, slots that are not moved keep their epochs, so their protectors are not rewritten.
type claims struct {
	mu sync.Mutex
	// idle is signaled when the last worker leaves a closed slot.
	idle   sync.Cond
	claims [slot.Count]claim
}

// claim is a slot that a leadership has; the zero value is a slot that it does not have.
type claim struct {
	epoch int64
	// claimedAt is when it was claimed, on the monotonic clock.
	claimedAt time.Time
	// closing reports that the slot is about to be given up, and busy is the number of its protectors that are being worked on.
	closing    bool
	inProgress int
}

func newClaims() *claims {
	o := &claims{}
	o.idle.L = &o.mu
	return o
}

// Add starts work on slots that were claimed.
func (o *claims) Add(slots slot.Set, epoch int64, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n := range slots.Each() {
		o.claims[n] = claim{epoch: epoch, claimedAt: now}
	}
}

// beginWork begins work on a protector of a slot. It returns false if the slot is not claimed, or closed.
func (o *claims) beginWork(n int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := &o.claims[n]; c.epoch == 0 || c.closing {
		return false
	}
	o.claims[n].inProgress++
	return true
}

func (o *claims) endWork(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.claims[n].inProgress--; o.claims[n].inProgress == 0 && o.claims[n].closing {
		o.idle.Broadcast()
	}
}

// isOpen reports whether a slot may be written.
func (o *claims) isOpen(n int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.claims[n].epoch > 0 && !o.claims[n].closing
}

// claimOf returns a slot's claim.
func (o *claims) claimOf(n int) claim {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.claims[n]
}

// close rejects new work in these slots.
func (o *claims) close(slots slot.Set) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n := range slots.Each() {
		o.claims[n].closing = true
	}
}

// Release gives up these slots. When it returns, no worker works in them.
func (o *claims) Release(slots slot.Set) {
	o.close(slots)
	o.mu.Lock()
	defer o.mu.Unlock()
	for n := range slots.Each() {
		for o.claims[n].inProgress > 0 {
			o.idle.Wait()
		}
		o.claims[n] = claim{}
	}
}

// Claimed returns the claimed slots, and those of them that are about to be given up.
func (o *claims) Claimed() (claimed, closing slot.Set) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n := range o.claims {
		if o.claims[n].epoch > 0 {
			claimed = claimed.With(n)
			if o.claims[n].closing {
				closing = closing.With(n)
			}
		}
	}
	return claimed, closing
}
