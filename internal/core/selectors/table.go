package selectors

// table finds items by a hash. A Go map would work, but its lookup makes four dependent memory reads before it reaches the item. A
// query is bound by memory latency, and here a lookup is one read. The table uses linear probing, and at most half of its slots are
// used, so that it seldom probes further than the next slot.
type table[T any] struct {
	// slots is empty, or its length is a power of two.
	slots []slot[T]
	used  int
}

// slot is empty if it has no item.
type slot[T any] struct {
	hash uint64
	item *T
}

// minSlots is the minimum length of slots unless it is empty.
const minSlots = 4

// find returns the item with this hash that right accepts, or nil. Several items may have the same hash.
func (t *table[T]) find(hash uint64, matches func(*T) bool) *T {
	if t.used == 0 {
		return nil
	}
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.item == nil || s.hash == hash && matches(s.item) {
			return s.item
		}
	}
}

// add adds an item that is not in the table.
func (t *table[T]) add(hash uint64, added *T) {
	if 2*(t.used+1) > len(t.slots) {
		t.resize(max(minSlots, 2*len(t.slots)))
	}
	t.put(slot[T]{hash, added})
}

func (t *table[T]) put(s slot[T]) {
	i := s.hash & uint64(len(t.slots)-1)
	for t.slots[i].item != nil {
		i = (i + 1) & uint64(len(t.slots)-1)
	}
	t.slots[i] = s
	t.used++
}

// remove removes an item that is in the table, and reinserts the items after it, so that no search ends at the gap.
func (t *table[T]) remove(hash uint64, removed *T) {
	mask := uint64(len(t.slots) - 1)
	i := hash & mask
	for t.slots[i].item != removed {
		i = (i + 1) & mask
	}
	t.slots[i] = slot[T]{}
	t.used--
	for i = (i + 1) & mask; t.slots[i].item != nil; i = (i + 1) & mask {
		follower := t.slots[i]
		t.slots[i] = slot[T]{}
		t.used--
		t.put(follower)
	}
	if len(t.slots) > minSlots && 8*t.used < len(t.slots) {
		t.resize(len(t.slots) / 2)
	}
}

func (t *table[T]) resize(size int) {
	slots := t.slots
	t.slots, t.used = make([]slot[T], size), 0
	for _, s := range slots {
		if s.item != nil {
			t.put(s)
		}
	}
}
