package selectors

// table finds things by a hash. A map of Go would do, but its lookup reads four places in memory one after the
// other before it is at what it finds, and a query is as slow as memory: here it is one. It probes linearly, and at
// most half of its slots are taken, so that it seldom goes further than to the next.
type table[T any] struct {
	// slots are none, or a power of two.
	slots []slot[T]
	used  int
}

// slot is empty when it has no item.
type slot[T any] struct {
	hash uint64
	item *T
}

// fewest is how many slots there are at least, when there are any.
const fewest = 4

// find returns the item with this hash that is the right one, or nil. Several may have one hash.
func (t *table[T]) find(hash uint64, right func(*T) bool) *T {
	if t.used == 0 {
		return nil
	}
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.item == nil || s.hash == hash && right(s.item) {
			return s.item
		}
	}
}

// add adds an item that is not there.
func (t *table[T]) add(hash uint64, added *T) {
	if 2*(t.used+1) > len(t.slots) {
		t.resize(max(fewest, 2*len(t.slots)))
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

// remove takes an item out that is there, and puts anew what follows it: a search must not end at the gap.
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
	if len(t.slots) > fewest && 8*t.used < len(t.slots) {
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
