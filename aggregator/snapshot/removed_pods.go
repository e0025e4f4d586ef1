package snapshot

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

// removedPods records which pods have ended, so that their reservations settle (rule 4(a)) and later events do not count them again. It
// detects that the cell was restored when the stream shows such a pod too late (rule 5). The mutex of the snapshot guards it.
//
// UIDs are never reused, so any later event of a removed pod on the stream is from before its end: the pod is not counted again, and a
// reservation for it can be settled at once. A pod comes back only after a restore of the cell. The stream shows it then, and its
// reservations stay until the stream shows its end or the leadership ends.
type removedPods struct {
	versions  *snapshotVersions
	monotonic func() time.Time
	// removed holds the pods that will never be counted again.
	removed map[quota.UIDHash]removedPod
	// reappeared are the removed pods that the stream shows, with the versions at which they did not exist. The stream shows them from
	// before their end, or from another history of the cell.
	reappeared map[quota.UIDHash]uint64
	// terminating is since when the snapshot has shown pods terminating, on the monotonic clock.
	terminating map[quota.UIDHash]time.Time
}

func newRemovedPods(versions *snapshotVersions, monotonic func() time.Time) *removedPods {
	return &removedPods{
		versions: versions, monotonic: monotonic,
		removed: map[quota.UIDHash]removedPod{}, reappeared: map[quota.UIDHash]uint64{}, terminating: map[quota.UIDHash]time.Time{},
	}
}

// record records that the stream has shown the end of a pod.
func (r *removedPods) record(hash quota.UIDHash) {
	if _, ok := r.removed[hash]; !ok {
		r.removed[hash] = removedPod{at: r.monotonic(), version: r.versions.stream}
	}
	delete(r.reappeared, hash)
}

// recordUnlisted records that a pod was missing from a live list of a version. shown reports whether the stream has shown the pod while the
// list was read.
func (r *removedPods) recordUnlisted(hash quota.UIDHash, version uint64, shown bool) {
	r.removed[hash] = removedPod{at: r.monotonic(), version: version}
	if _, doubtful := r.reappeared[hash]; doubtful || shown {
		r.reappeared[hash] = version
	}
}

// recordTerminating records that the stream shows a pod terminating.
func (r *removedPods) recordTerminating(hash quota.UIDHash) {
	if _, known := r.terminating[hash]; !known {
		r.terminating[hash] = r.monotonic()
	}
}

// reappears reports whether a pod that the stream shows was removed, and records that it reappeared. This is expected until the stream has
// passed the pod's end. After that only another history of the cell explains it, in which other pods may differ too.
func (r *removedPods) reappears(hash quota.UIDHash) bool {
	d, ok := r.removed[hash]
	if ok {
		r.reappeared[hash] = d.version
	}
	return ok
}

// endTimeOf returns when the snapshot observed that a pod terminates or was deleted; zero if neither. shown reports whether the snapshot has
// the pod.
func (r *removedPods) endTimeOf(hash quota.UIDHash, shown bool) time.Time {
	if d, ok := r.removed[hash]; ok && !shown {
		return d.at
	}
	return r.terminating[hash]
}

// checkReappeared ends the leadership when the stream has passed the version at which a pod did not exist and has not shown the end of that
// pod (rule 5). The cell was then restored to a version between that of the stream and that of the live list. It has since advanced past
// both, so no version reveals the restore. There may be no later event of the pod, and the counts would leave the pod out until there is
// one.
func (r *removedPods) checkReappeared() {
	for _, version := range r.reappeared {
		if version <= r.versions.stream {
			r.versions.onRewind(fmt.Errorf("a pod exists at version %d that did not exist at version %d: the cell was restored", r.versions.stream, version))
			return
		}
	}
}

// forget removes old entries. Go iterates over maps in random order, so checking a few entries at each event is enough to keep up.
func (r *removedPods) forget() {
	limit, checked := r.monotonic().Add(-removedPodRetention), 0
	for hash, d := range r.removed {
		if d.at.Before(limit) && d.version <= r.versions.stream {
			delete(r.removed, hash)
		}
		if checked++; checked == 4 {
			return
		}
	}
}

// RecordUnlisted records that pods that the stream has not shown were missing from a live list of the given version.
func (s *Snapshot) RecordUnlisted(hashes []quota.UIDHash, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions.recordLiveList(version)
	for _, hash := range hashes {
		shown := s.pods.byHash[hash] != nil
		s.pods.remove(hash)
		s.removed.recordUnlisted(hash, version, shown)
	}
	s.removed.checkReappeared()
}
