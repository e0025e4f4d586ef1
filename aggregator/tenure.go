package aggregator

import (
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// tenure is the slots that a term has claimed, of a cell that is shared out. Each has an epoch of its own, that of its claim: when
// shards come and go, those slots that stay where they are keep theirs, and nothing is written of their protectors.
type tenure struct {
	mu sync.Mutex
	// idle is told when a slot is closed that nobody works in any more.
	idle   sync.Cond
	claims [slot.Count]claim
}

// claim is a slot that a term has; the zero value is one that it has not.
type claim struct {
	epoch int64
	// since is when, on the monotonic clock.
	since time.Time
	// closed tells that the slot is about to be given up, and busy how many protectors of it are worked on.
	closed bool
	busy   int
}

func newTenure() *tenure {
	t := &tenure{}
	t.idle.L = &t.mu
	return t
}

// take begins with slots that were claimed.
func (t *tenure) take(slots slot.Set, epoch int64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := range slots.Each() {
		t.claims[n] = claim{epoch: epoch, since: now}
	}
}

// enter begins work on a protector of a slot, unless it is not there to be worked on.
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

// has tells whether a slot may be written.
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

// close lets nobody begin in these slots any more.
func (t *tenure) close(slots slot.Set) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := range slots.Each() {
		t.claims[n].closed = true
	}
}

// drop ends these slots: when it returns, nobody works in them any more.
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

// all are the slots that were claimed, closed those of them that are about to be given up.
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
