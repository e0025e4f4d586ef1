package aggregator

import (
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// tenure is the set of slots that a term has claimed, in a cell that shards share. Each slot has the epoch of its claim. When
// shards join and leave, slots that are not moved keep their epochs, so their protectors are not rewritten.
type tenure struct {
	mu sync.Mutex
	// idle is signaled when the last worker leaves a closed slot.
	idle   sync.Cond
	claims [slot.Count]claim
}

// claim is a slot that a term has; the zero value is a slot that it does not have.
type claim struct {
	epoch int64
	// since is when it was claimed, on the monotonic clock.
	since time.Time
	// closed reports that the slot is about to be given up, and busy is the number of its protectors that are being worked on.
	closed bool
	busy   int
}

func newTenure() *tenure {
	t := &tenure{}
	t.idle.L = &t.mu
	return t
}

// take starts work on slots that were claimed.
func (t *tenure) take(slots slot.Set, epoch int64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := range slots.Each() {
		t.claims[n] = claim{epoch: epoch, since: now}
	}
}

// enter begins work on a protector of a slot. It returns false if the slot is not claimed, or closed.
func (t *tenure) enter(n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := &t.claims[n]; c.epoch == 0 || c.closed {
		return false
	}
	t.claims[n].busy++
	return true
}

func (t *tenure) leave(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.claims[n].busy--; t.claims[n].busy == 0 && t.claims[n].closed {
		t.idle.Broadcast()
	}
}

// has reports whether a slot may be written.
func (t *tenure) has(n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.claims[n].epoch > 0 && !t.claims[n].closed
}

// of returns a slot's claim.
func (t *tenure) of(n int) claim {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.claims[n]
}

// close rejects new work in these slots.
func (t *tenure) close(slots slot.Set) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := range slots.Each() {
		t.claims[n].closed = true
	}
}

// drop gives up these slots. When it returns, no worker works in them.
func (t *tenure) drop(slots slot.Set) {
	t.close(slots)
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := range slots.Each() {
		for t.claims[n].busy > 0 {
			t.idle.Wait()
		}
		t.claims[n] = claim{}
	}
}

// all returns the claimed slots, and those of them that are about to be given up.
func (t *tenure) all() (all, closed slot.Set) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := range t.claims {
		if t.claims[n].epoch > 0 {
			all = all.With(n)
			if t.claims[n].closed {
				closed = closed.With(n)
			}
		}
	}
	return all, closed
}
