package aggregator

import (
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// part is the set of slots whose pods a snapshot keeps, in a cell that shards share. A pod is in the slot of its namespace,
// which never changes.
type part struct {
	// wanted are the slots that the snapshot is to keep.
	wanted slot.Set
	// listing are the slots of the last started list. covered are the slots whose pods the snapshot has: all of them were in a
	// list, and it has received all events since. Both are subsets of wanted.
	listing, covered slot.Set
	// took is called with slots that became covered; it must not block.
	took func(slot.Set)
}

// share makes the snapshot keep no slots but those it is asked to take. It must be called before the stream begins.
func (s *Snapshot) share(took func(slot.Set)) { s.part = &part{took: took} }

// Take adds slots to keep, from the next list on: a list that is in progress began too early.
func (s *Snapshot) Take(slots slot.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.part.wanted = s.part.wanted.Or(slots)
	s.part.listing = s.part.listing.Minus(slots)
}

// GiveUp drops the pods of some slots. These pods stay alive, so they are not recorded as removed, unlike pods whose end the
// stream has shown.
func (s *Snapshot) GiveUp(slots slot.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.part.wanted, s.part.listing, s.part.covered = s.part.wanted.Minus(slots), s.part.listing.Minus(slots), s.part.covered.Minus(slots)
	s.nodes.giveUp(slots)
	clear(s.reappeared) // the stream no longer shows their ends; for other slots, the heartbeat or the next list may reveal a restore
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

// Covers reports whether the snapshot has the pods of all these slots.
func (s *Snapshot) Covers(slots slot.Set) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slots.Minus(s.part.covered).Empty()
}

// covers reports whether the snapshot has all pods of the cell in a namespace.
func (s *Snapshot) covers(namespace string) bool {
	return s.part == nil || s.part.covered.Has(slot.Of(namespace))
}

// beginList records the slots of the list that begins now, and returns a function that reports which namespaces of it to keep.
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

// isListed reports whether the received list covers a namespace's slot, which may have been given up since the list began.
func (s *Snapshot) isListed(namespace unique.Handle[string]) bool {
	return s.part == nil || s.part.listing.Has(slot.Of(namespace.Value()))
}

// cover records that a list was received.
func (s *Snapshot) cover() {
	if s.part == nil {
		return
	}
	if fresh := s.part.listing.Minus(s.part.covered); !fresh.Empty() {
		s.part.covered = s.part.covered.Or(fresh)
		s.part.took(fresh)
	}
}

// keysOf adds to keys the protectors of a map that are in some slots.
func keysOf[V any](slots slot.Set, of map[types.NamespacedName]V, keys map[types.NamespacedName]bool) {
	for key := range of {
		if slots.Has(slot.Of(key.Namespace)) {
			keys[key] = true
		}
	}
}
