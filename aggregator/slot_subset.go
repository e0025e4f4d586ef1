package aggregator

import (
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// slotSubset is the set of slots whose pods a snapshot keeps, in a cell that shards share. A pod is in the slot of its namespace,
// which never changes.
type slotSubset struct {
	// wanted are the slots that the snapshot is to keep.
	wanted slot.Set
	// listing are the slots of the last started list. covered are the slots whose pods the snapshot has: all of them were in a
	// list, and it has received all events since. Both are subsets of wanted.
	listing, covered slot.Set
	// onCovered is called with slots that became covered; it must not block.
	onCovered func(slot.Set)
}

// keepOnly makes the snapshot keep no slots but those it is asked to take. It must be called before the stream begins.
func (s *Snapshot) keepOnly(onCovered func(slot.Set)) { s.slots = &slotSubset{onCovered: onCovered} }

// AddSlots adds slots to keep, from the next list on: a list that is in progress began too early.
func (s *Snapshot) AddSlots(slots slot.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots.wanted = s.slots.wanted.Or(slots)
	s.slots.listing = s.slots.listing.Minus(slots)
}

// ReleaseSlots drops the pods of some slots. These pods stay alive, so they are not recorded as removed, unlike pods whose end the
// stream has shown.
func (s *Snapshot) ReleaseSlots(slots slot.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots.wanted, s.slots.listing, s.slots.covered = s.slots.wanted.Minus(slots), s.slots.listing.Minus(slots), s.slots.covered.Minus(slots)
	s.nodes.releaseSlots(slots)
	clear(s.reappeared) // the stream no longer shows their ends; for other slots, the heartbeat or the next list may reveal a restore
	for key := range s.covered {
		if slots.Has(slot.Of(key.Namespace)) {
			s.index.Delete(key)
			delete(s.covered, key)
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

// CoversSlots reports whether the snapshot has the pods of all these slots.
func (s *Snapshot) CoversSlots(slots slot.Set) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slots.Minus(s.slots.covered).Empty()
}

// coversNamespace reports whether the snapshot has all pods of the cell in a namespace.
func (s *Snapshot) coversNamespace(namespace string) bool {
	return s.slots == nil || s.slots.covered.Has(slot.Of(namespace))
}

// beginList records the slots of the list that begins now, and returns a function that reports which namespaces of it to keep.
func (s *Snapshot) beginList() (keeps func(namespace string) bool) {
	if s.slots == nil {
		return func(string) bool { return true }
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots.listing = s.slots.wanted
	listing := s.slots.listing
	return func(namespace string) bool { return listing.Has(slot.Of(namespace)) }
}

// isListed reports whether the received list covers a namespace's slot, which may have been given up since the list began.
func (s *Snapshot) isListed(namespace unique.Handle[string]) bool {
	return s.slots == nil || s.slots.listing.Has(slot.Of(namespace.Value()))
}

// recordList records that a list was received.
func (s *Snapshot) recordList() {
	if s.slots == nil {
		return
	}
	if added := s.slots.listing.Minus(s.slots.covered); !added.Empty() {
		s.slots.covered = s.slots.covered.Or(added)
		s.slots.onCovered(added)
	}
}

// addKeysIn adds to keys the protectors of a map that are in some slots.
func addKeysIn[V any](slots slot.Set, of map[types.NamespacedName]V, keys map[types.NamespacedName]bool) {
	for key := range of {
		if slots.Has(slot.Of(key.Namespace)) {
			keys[key] = true
		}
	}
}
