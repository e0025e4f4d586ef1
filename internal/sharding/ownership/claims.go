package ownership

import (
	"sync"

	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// Claims is the set of slots that a process has claimed, each with a value, and the work in progress in them. It is safe for concurrent use.
type Claims[V any] struct {
	mu sync.Mutex
	// idle is signaled when the last worker leaves a closed slot.
	idle sync.Cond
	// closing are slots that are about to be given up.
	claimed, closing slot.Set
	values           [slot.Count]V
	// inProgress is the number of objects of each slot that are being worked on.
	inProgress [slot.Count]int
}

// NewClaims returns Claims without slots.
func NewClaims[V any]() *Claims[V] {
	c := &Claims[V]{}
	c.idle.L = &c.mu
	return c
}

// Add starts work on slots that were claimed.
func (c *Claims[V]) Add(slots slot.Set, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claimed, c.closing = c.claimed.Or(slots), c.closing.Minus(slots)
	for n := range slots.Each() {
		c.values[n] = value
	}
}

// BeginWork begins work on an object of a slot. It returns false if the slot is not claimed, or closed. EndWork must be called after work
// that began.
func (c *Claims[V]) BeginWork(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.claimed.Has(n) || c.closing.Has(n) {
		return false
	}
	c.inProgress[n]++
	return true
}

// EndWork ends work on an object of a slot.
func (c *Claims[V]) EndWork(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inProgress[n]--; c.inProgress[n] == 0 && c.closing.Has(n) {
		c.idle.Broadcast()
	}
}

// ValueOf returns the value of a claimed slot; the zero value if the slot is not claimed.
func (c *Claims[V]) ValueOf(n int) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values[n]
}

// Close rejects new work in these slots.
func (c *Claims[V]) Close(slots slot.Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = c.closing.Or(slots)
}

// Release gives up these slots. When it returns, no worker works in them.
func (c *Claims[V]) Release(slots slot.Set) {
	c.Close(slots)
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range slots.Each() {
		for c.inProgress[n] > 0 {
			c.idle.Wait()
		}
		released := slot.Set{}.With(n)
		c.claimed, c.closing, c.values[n] = c.claimed.Minus(released), c.closing.Minus(released), *new(V)
	}
}

// Claimed returns the claimed slots, and those of them that are about to be given up.
func (c *Claims[V]) Claimed() (claimed, closing slot.Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claimed, c.claimed.And(c.closing)
}

// Open returns the slots in which work may begin.
func (c *Claims[V]) Open() slot.Set {
	claimed, closing := c.Claimed()
	return claimed.Minus(closing)
}
