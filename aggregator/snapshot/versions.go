package snapshot

import (
	"fmt"
	"strconv"
)

// snapshotVersions is how far the snapshot has come: the versions of the cell's stream, and of the live lists that counts used. The mutex of
// the snapshot guards it.
type snapshotVersions struct {
	// stream is 0 until the first list.
	stream uint64
	// liveList is the version of the newest live list that counts used.
	liveList uint64
	// onRewind is called when the cell's version went backwards; it ends the leadership.
	onRewind func(error)
}

// advance raises the version of the stream. It never goes backwards (rule 5): when the cell's own version does, as after a restore of its
// etcd, the snapshot is unusable.
func (v *snapshotVersions) advance(resourceVersion string) error {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("resourceVersion %q of the cell's pods is not a number", resourceVersion)
	}
	if version < v.stream {
		err := fmt.Errorf("the version of the cell's pods went backwards, from %d to %d", v.stream, version)
		v.onRewind(err)
		return err
	}
	v.stream = version
	return nil
}

// recordLiveList records that counts use a live list of a version.
func (v *snapshotVersions) recordLiveList(version uint64) { v.liveList = max(v.liveList, version) }

// unreached returns the version of the newest live list that counts used, if the stream has not reached it; otherwise 0.
func (v *snapshotVersions) unreached() uint64 {
	if v.liveList > v.stream {
		return v.liveList
	}
	return 0
}

// Unreached returns the version of the newest live list that counts used, if the stream has not reached it; otherwise 0.
func (s *Snapshot) Unreached() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions.unreached()
}

// HasReached reports whether the stream has reached a version.
func (s *Snapshot) HasReached(version uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions.stream >= version
}
