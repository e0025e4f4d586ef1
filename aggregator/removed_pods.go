package aggregator

import (
	"fmt"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// removedPodRetention is how long the snapshot remembers that a pod was removed. A reservation of a pod that it has forgotten costs a live
// read, nothing else.
const removedPodRetention = 15 * time.Minute

// removedPod is the end of a pod.
type removedPod struct {
	// at is when the snapshot observed it, on the monotonic clock.
	at time.Time
	// version is a version at which the pod no longer existed. Until the stream has passed it, events from before the pod's end may still
	// arrive.
	version uint64
}

// recordRemoved records that a pod does not exist at a version. UIDs are never reused, so any later event of the pod on the stream is from before
// its end: the pod is not counted again, and a reservation for it can be settled at once. A pod comes back only after a restore of the
// cell. The stream shows it then, and its reservations stay until the stream shows its end or the leadership ends.
func (s *Snapshot) recordRemoved(hash quota.UIDHash, version uint64) {
	if _, ok := s.removedPods[hash]; !ok {
		s.removedPods[hash] = removedPod{at: s.monotonic(), version: version}
	}
}

// endTimeOf returns when the snapshot observed that a pod terminates or was deleted; zero if neither.
func (s *Snapshot) endTimeOf(hash quota.UIDHash) time.Time {
	if d, ok := s.removedPods[hash]; ok && s.pods[hash] == nil {
		return d.at
	}
	return s.terminating[hash]
}

// RecordUnlisted records that pods that the stream has not shown were missing from a live list of the given version.
func (s *Snapshot) RecordUnlisted(hashes []quota.UIDHash, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.liveListVersion = max(s.liveListVersion, version)
	for _, hash := range hashes {
		_, doubtful := s.reappeared[hash]
		doubtful = doubtful || s.pods[hash] != nil // the stream has shown it while the list was read
		s.removeDeleted(hash)
		s.removedPods[hash] = removedPod{at: s.monotonic(), version: version}
		if doubtful {
			s.reappeared[hash] = version
		}
	}
	s.checkReappeared()
}

// checkReappeared ends the leadership when the stream has passed the version at which a pod did not exist and has not shown the end of that
// pod. The cell was then restored to a version between that of the stream and that of the live list. It has since advanced past both, so
// no version reveals the restore. There may be no later event of the pod, and the counts would leave the pod out until there is one.
func (s *Snapshot) checkReappeared() {
	for _, version := range s.reappeared {
		if version <= s.version {
			s.onRewind(fmt.Errorf("a pod exists at version %d that did not exist at version %d: the cell was restored", s.version, version))
			return
		}
	}
}

// Unreached returns the version of the newest live list that counts used, if the stream has not reached it; otherwise 0.
func (s *Snapshot) Unreached() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.liveListVersion > s.version {
		return s.liveListVersion
	}
	return 0
}

// HasReached reports whether the stream has reached a version.
func (s *Snapshot) HasReached(version uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version >= version
}

// forgetRemovedPods removes old entries. Go iterates over maps in random order, so checking a few entries at each event is enough to keep
// up.
func (s *Snapshot) forgetRemovedPods() {
	limit, checked := s.monotonic().Add(-removedPodRetention), 0
	for hash, d := range s.removedPods {
		if d.at.Before(limit) && d.version <= s.version {
			delete(s.removedPods, hash)
		}
		if checked++; checked == 4 {
			return
		}
	}
}
