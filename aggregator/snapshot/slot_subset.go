package snapshot

import (
	"unique"

	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// slotSubset is the set of slots whose pods a snapshot keeps, in a cell that shards share. A pod is in the slot of its namespace,
// which never changes. A nil subset is all slots. The mutex of the snapshot guards it.
type slotSubset struct {
	// wanted are the slots that the snapshot is to keep.
	wanted slot.Set
	// listing are the slots of the last started list. covered are the slots whose pods the snapshot has: all of them were in a
	// list, and it has received all events since. Both are subsets of wanted.
	listing, covered slot.Set
	// onCovered is called with slots that became covered; it must not block.
	onCovered func(slot.Set)
}

// add adds slots to keep, from the next list on: a list that is in progress began too early (rule 5).
func (s *slotSubset) add(slots slot.Set) {
	s.wanted = s.wanted.Or(slots)
	s.listing = s.listing.Minus(slots)
}

// release removes slots.
func (s *slotSubset) release(slots slot.Set) {
	s.wanted, s.listing, s.covered = s.wanted.Minus(slots), s.listing.Minus(slots), s.covered.Minus(slots)
}

// coversNamespace reports whether the snapshot has all pods of the cell in a namespace.
func (s *slotSubset) coversNamespace(namespace string) bool {
	return s == nil || s.covered.Has(slot.Of(namespace))
}

// isListed reports whether the received list covers a namespace's slot, which may have been given up since the list began.
func (s *slotSubset) isListed(namespace unique.Handle[string]) bool {
	return s == nil || s.listing.Has(slot.Of(namespace.Value()))
}

// recordList records that a list was received.
func (s *slotSubset) recordList() {
	if s == nil {
		return
	}
	if added := s.listing.Minus(s.covered); !added.Empty() {
		s.covered = s.covered.Or(added)
		s.onCovered(added)
	}
}

// KeepOnly makes the snapshot keep no slots but those that AddSlots adds. onCovered is called with slots whose pods are all in the snapshot; it must not
// block. KeepOnly must be called before the stream begins.
func (s *Snapshot) KeepOnly(onCovered func(slot.Set)) {
	s.filter.slots = &slotSubset{onCovered: onCovered}
}

// AddSlots adds slots to keep, from the next list on.
func (s *Snapshot) AddSlots(slots slot.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filter.slots.add(slots)
}

// ReleaseSlots drops the pods and protectors of some slots.
func (s *Snapshot) ReleaseSlots(slots slot.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filter.slots.release(slots)
	s.nodes.releaseSlots(slots)
	clear(s.removed.reappeared) // the stream no longer shows their ends; for other slots, the heartbeat or the next list may reveal a restore
	s.protectors.releaseSlots(slots)
	s.pods.releaseSlots(slots)
}

// CoversSlots reports whether the snapshot has the pods of all these slots.
func (s *Snapshot) CoversSlots(slots slot.Set) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slots.Minus(s.filter.slots.covered).Empty()
}
