package aggregator

import (
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// part is the slots whose pods a snapshot keeps, of a cell that is shared out. A pod is in the slot of its namespace, which it
// never leaves.
type part struct {
	// wanted are those that it is to keep.
	wanted slot.Set
	// listing are those of the list that was begun last, and covered those whose pods it has: all of them were in a list, and it
	// has heard of what happened since. Both are among the wanted.
	listing, covered slot.Set
	// took is told of slots that have come to be covered; it must not block.
	took func(slot.Set)
}

// share makes a snapshot of nothing keep only what it is asked to take; before the stream begins.
func (s *Snapshot) share(took func(slot.Set)) { s.part = &part{took: took} }

// Take makes it keep the pods of some slots more, from the next list on: one that is under way has begun too early.
func (s *Snapshot) Take(slots slot.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.part.wanted = s.part.wanted.Or(slots)
	s.part.listing = s.part.listing.Minus(slots)
}

// GiveUp drops the pods of some slots, which go on living. They are not known to be gone, as those are that the stream has shown
// to go.
func (s *Snapshot) GiveUp(slots slot.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.part.wanted, s.part.listing, s.part.covered = s.part.wanted.Minus(slots), s.part.listing.Minus(slots), s.part.covered.Minus(slots)
	s.nodes.giveUp(slots)
	clear(s.reappeared) // their ends are not heard of any more; of those of other slots, the heartbeat or the next list may tell
	for key := range s.members {
		if slots.Has(slot.Of(key.Namespace)) {
			s.index.Delete(key)
			delete(s.members, key)
		}
	}
	for namespace, pods := range s.byNamespace {
		if slots.Has(slot.Of(namespace.Value())) {
			for p := range pods {
				delete(s.pods, p.hash)
				s.labels.release(p.labels)
			}
			delete(s.byNamespace, namespace)
		}
	}
}

// Covers tells whether the snapshot has the pods of all these slots.
func (s *Snapshot) Covers(slots slot.Set) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slots.Minus(s.part.covered).Empty()
}

// covers tells whether the snapshot has all pods of a namespace that are the cell's.
func (s *Snapshot) covers(namespace string) bool {
	return s.part == nil || s.part.covered.Has(slot.Of(namespace))
}

// beginList notes which slots the list has that begins now, and tells what of it is kept.
func (s *Snapshot) beginList() (keeps func(namespace string) bool) {
	if s.part == nil {
		return func(string) bool { return true }
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.part.listing = s.part.wanted
	listing := s.part.listing
	return func(namespace string) bool { return listing.Has(slot.Of(namespace)) }
}

// isListed tells whether the list that has come is of a namespace's slot, which may have been given up since it began.
func (s *Snapshot) isListed(namespace unique.Handle[string]) bool {
	return s.part == nil || s.part.listing.Has(slot.Of(namespace.Value()))
}

// cover notes that a list has come.
func (s *Snapshot) cover() {
	if s.part == nil {
		return
	}
	if fresh := s.part.listing.Minus(s.part.covered); !fresh.Empty() {
		s.part.covered = s.part.covered.Or(fresh)
		s.part.took(fresh)
	}
}

// keysOf are the protectors in memory that are in some slots.
func keysOf[V any](slots slot.Set, of map[types.NamespacedName]V, keys map[types.NamespacedName]bool) {
	for key := range of {
		if slots.Has(slot.Of(key.Namespace)) {
			keys[key] = true
		}
	}
}
