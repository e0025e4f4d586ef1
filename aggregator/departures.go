package aggregator

import (
	"fmt"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// rememberDepartures is how long the snapshot remembers that a pod has gone. A reservation of a pod that it has
// forgotten costs a live read, nothing else.
const rememberDepartures = 15 * time.Minute

// departure is the end of a pod.
type departure struct {
	// at is when the snapshot learned of it, on the monotonic clock.
	at time.Time
	// version is one at which the pod was gone. Until the stream has passed it, events from before the
	// pod's end may still arrive.
	version uint64
}

// bury notes that a pod is gone at a version. UIDs never come back, so whatever the stream still says of it is
// from before: it is not counted again, and a reservation for it can be settled at once. Only after a restore of the cell does a pod
// come back: the stream shows it then, and its reservations stay until the stream shows its end or the term ends.
func (s *Snapshot) bury(hash quota.UIDHash, version uint64) {
	if _, ok := s.departed[hash]; !ok {
		s.departed[hash] = departure{at: s.monotonic(), version: version}
	}
}

// endOf is when the snapshot learned that a pod terminates or is gone; zero if it does neither.
func (s *Snapshot) endOf(hash quota.UIDHash) time.Time {
	if d, ok := s.departed[hash]; ok && s.pods[hash] == nil {
		return d.at
	}
	return s.terminating[hash]
}

// BuryUnlisted notes that pods, which the stream has not shown, were not in a live list of the given version.
func (s *Snapshot) BuryUnlisted(hashes []quota.UIDHash, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlisted = max(s.unlisted, version)
	for _, hash := range hashes {
		_, doubtful := s.reappeared[hash]
		doubtful = doubtful || s.pods[hash] != nil // the stream has shown it while the list was read
		s.drop(hash)
		s.departed[hash] = departure{at: s.monotonic(), version: version}
		if doubtful {
			s.reappeared[hash] = version
		}
	}
	s.checkReappeared()
}

// checkReappeared ends the term when the stream has passed the version at which a pod was gone and has not shown the end of that pod. Its
// cell was restored to a version between the one of the stream and the one of the live list. It has gone on past both since, so that no
// version tells so. No later event may be about the pod, which would be left out of the counts for as long.
func (s *Snapshot) checkReappeared() {
	for _, version := range s.reappeared {
		if version <= s.version {
			s.rewound(fmt.Errorf("a pod exists at version %d that was gone at %d: the cell was restored", s.version, version))
			return
		}
	}
}

// Unreached is the version of the newest live list that counts went by, if the stream has not come that far; otherwise 0.
func (s *Snapshot) Unreached() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unlisted > s.version {
		return s.unlisted
	}
	return 0
}

// Reached tells whether the stream has come to a version.
func (s *Snapshot) Reached(version uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version >= version
}

// forgetDepartures makes room. Maps in Go are walked in random order, so a few entries at each event are enough
// to keep up.
func (s *Snapshot) forgetDepartures() {
	limit, walked := s.monotonic().Add(-rememberDepartures), 0
	for hash, d := range s.departed {
		if d.at.Before(limit) && d.version <= s.version {
			delete(s.departed, hash)
		}
		if walked++; walked == 4 {
			return
		}
	}
}
