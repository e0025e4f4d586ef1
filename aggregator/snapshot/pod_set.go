package snapshot

import (
	"slices"
	"time"
	"unique"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// podSet is the pods of a snapshot. It keeps the index of protectors up to date with them and enqueues the protectors of changed pods. The
// mutex of the snapshot guards it.
type podSet struct {
	byHash      map[quota.UIDHash]*pod
	byNamespace map[unique.Handle[string]]map[*pod]struct{}
	labels      labelSets
	// listCount is the number of lists so far. removeUnlisted compares it with pod.lastList.
	listCount uint32
	// sinceCreation is Snapshot.SinceCreation.
	sinceCreation func() time.Duration

	removed    *removedPods
	protectors *protectorIndex
	notifier   *notifier
}

func newPodSet(removed *removedPods, protectors *protectorIndex, notifier *notifier, sinceCreation func() time.Duration) *podSet {
	return &podSet{
		byHash: map[quota.UIDHash]*pod{}, byNamespace: map[unique.Handle[string]]map[*pod]struct{}{}, labels: labelSets{},
		sinceCreation: sinceCreation, removed: removed, protectors: protectors, notifier: notifier,
	}
}

// inNamespace returns the pods of a namespace.
func (s *podSet) inNamespace(namespace string) map[*pod]struct{} {
	return s.byNamespace[unique.Make(namespace)]
}

// put adds or updates a pod as it was seen, with these labels. It keeps seen, if that is a new pod.
func (s *podSet) put(seen *pod, labels map[string]string) {
	if s.removed.reappears(seen.hash) {
		return
	}
	p, wasReady := s.byHash[seen.hash], false
	if p == nil {
		p = s.add(seen)
	} else {
		wasReady = isReady(p)
	}
	if p.version != seen.version {
		p.versionSeen = s.sinceCreation()
	}
	p.facts, p.owner, p.node, p.version, p.lastList = seen.facts, seen.owner, seen.node, seen.version, s.listCount
	p.seenAlive = max(p.seenAlive, seen.seenAlive)
	if p.facts.Terminating() {
		s.removed.recordTerminating(p.hash)
	}
	if p.labels == nil || !p.labels.equal(labels) {
		s.relabel(p, labels)
	}
	s.notifier.podChanged(p, isReady(p) && !wasReady)
}

// add adds a pod, without its labels.
func (s *podSet) add(p *pod) *pod {
	p.labels, p.versionSeen = nil, s.sinceCreation()
	s.byHash[p.hash] = p
	if s.byNamespace[p.namespace] == nil {
		s.byNamespace[p.namespace] = map[*pod]struct{}{}
	}
	s.byNamespace[p.namespace][p] = struct{}{}
	return p
}

// relabel moves a pod from the protectors of its old labels to those of its new labels.
func (s *podSet) relabel(p *pod, labels map[string]string) {
	if p.labels != nil {
		s.notifier.podChanged(p, false)
		s.protectors.remove(p)
		s.labels.release(p.labels)
	}
	p.labels = s.labels.intern(labels)
	s.protectors.add(p)
}

// removeDeleted removes a pod for good.
func (s *podSet) removeDeleted(hash quota.UIDHash) {
	s.removed.record(hash)
	s.remove(hash)
}

func (s *podSet) remove(hash quota.UIDHash) {
	p := s.byHash[hash]
	if p == nil {
		return
	}
	s.notifier.podChanged(p, false)
	s.protectors.remove(p)
	delete(s.byHash, hash)
	delete(s.removed.terminating, hash)
	delete(s.byNamespace[p.namespace], p)
	if len(s.byNamespace[p.namespace]) == 0 {
		delete(s.byNamespace, p.namespace)
	}
	s.labels.release(p.labels)
}

// removeUnlisted removes the pods that the last list did not contain. Their order is the order in which their protectors are written.
// mayLive reports whether they may still live, with labels of another cell.
func (s *podSet) removeUnlisted(mayLive bool) {
	var unlisted []quota.UIDHash
	for hash, p := range s.byHash {
		if p.lastList != s.listCount {
			unlisted = append(unlisted, hash)
		}
	}
	slices.Sort(unlisted)
	for _, hash := range unlisted {
		if mayLive {
			s.removeAlive(hash)
		} else {
			s.removeDeleted(hash)
		}
	}
}

// releaseSlots drops the pods of some slots, whose protectors must have been removed before. These pods stay alive, so they are not
// recorded as removed, unlike pods whose end the stream has shown (rule 4(a)).
func (s *podSet) releaseSlots(slots slot.Set) {
	for namespace, pods := range s.byNamespace {
		if slots.Has(slot.Of(namespace.Value())) {
			for p := range pods {
				delete(s.byHash, p.hash)
				delete(s.removed.terminating, p.hash)
				s.labels.release(p.labels)
			}
			delete(s.byNamespace, namespace)
		}
	}
}

// In a cell that a selector defines, a pod can enter and leave by a change of its labels while it lives. Users should not do
// that; see docs/concepts/topology.md. Such changes make budgets smaller, not larger:
//
//   - A pod that has left is not counted, but not recorded as removed either. Its reservation stays until a live read
//     shows that the pod has ended, or that its removal can no longer succeed (rule 4).
//   - A pod that is seen entering is not counted for the rest of the leadership: the cell that it came from may still count it.

// removeAlive removes a pod that may be alive.
func (s *podSet) removeAlive(hash quota.UIDHash) { s.remove(hash) }
