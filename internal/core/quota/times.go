package quota

import (
	"encoding/binary"
	"iter"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// run is how many reservations of a merged bucket, one after another, were last made or renewed at one time.
type run struct {
	stamp time.Time
	n     int
}

// runsOf returns the times of a merged bucket's reservations, in the order of its hashes. Versions before podTimes drop and do not write
// them. Of such a bucket only the latest time is known, which restarts the timers of all when it changes.
func runsOf(bucket *v1alpha1.Bucket) []run {
	n := hashes(bucket)
	if runs, ok := decodeRuns(bucket.PodTimes, bucket.StartTime.Time, n); ok {
		return runs
	}
	return []run{{latest(bucket), n}}
}

// decodeRuns reads podTimes; ok is false unless they are of n reservations.
func decodeRuns(raw []byte, stamp time.Time, n int) (runs []run, ok bool) {
	for len(raw) > 0 {
		count, width := binary.Uvarint(raw)
		if width <= 0 || count == 0 || count > uint64(n) { //nolint:gosec // a length is not negative
			return nil, false
		}
		later, more := binary.Uvarint(raw[width:])
		if more <= 0 || later > uint64(longestRun/time.Microsecond) {
			return nil, false
		}
		stamp, raw, n = stamp.Add(time.Duration(later)*time.Microsecond), raw[width+more:], n-int(count)
		runs = append(runs, run{stamp, int(count)})
	}
	return runs, n == 0
}

// longestRun bounds the time between two runs: what is longer is malformed.
const longestRun = 100 * 365 * 24 * time.Hour

// setTimes keeps the times of a merged bucket's reservations, which must be in the order of its hashes, none before startTime.
func setTimes(bucket *v1alpha1.Bucket, runs []run) {
	bucket.PodTimes = nil
	if len(runs) == 1 && runs[0].stamp.Equal(latest(bucket)) {
		return // as without them
	}
	last := bucket.StartTime.Time
	for _, r := range runs {
		bucket.PodTimes = binary.AppendUvarint(bucket.PodTimes, uint64(r.n))                                //nolint:gosec // not negative
		bucket.PodTimes = binary.AppendUvarint(bucket.PodTimes, uint64(r.stamp.Sub(last)/time.Microsecond)) //nolint:gosec // runs are in order
		last = r.stamp
	}
}

// members yields the place of each reservation of a merged bucket, and when it was last made or renewed.
func members(bucket *v1alpha1.Bucket) iter.Seq2[int, time.Time] {
	return func(yield func(int, time.Time) bool) {
		at := 0
		for _, r := range runsOf(bucket) {
			for range r.n {
				if !yield(at, r.stamp) {
					return
				}
				at++
			}
		}
	}
}

// keepMembers drops the reservations of a merged bucket that are not kept.
func keepMembers(bucket *v1alpha1.Bucket, keep func(place int, r Reservation) bool) {
	var runs []run
	kept := make([]byte, 0, len(bucket.PodUIDHashes))
	for i, stamp := range members(bucket) {
		if !keep(i, merged(bucket, i, stamp)) {
			bucket.Counter--
			continue
		}
		kept = append(kept, bucket.PodUIDHashes[i*hashSize:(i+1)*hashSize]...)
		if last := len(runs) - 1; last >= 0 && runs[last].stamp.Equal(stamp) {
			runs[last].n++
		} else {
			runs = append(runs, run{stamp, 1})
		}
	}
	bucket.PodUIDHashes = kept
	setTimes(bucket, runs)
}

// merging is a merged bucket while reservations are added to it.
type merging struct {
	bucket *v1alpha1.Bucket
	runs   []run
}

// add takes a bucket in, single or merged. Each reservation keeps its time, so that its timer runs on: one that stands for a removal that
// was abandoned ends in time, however often others are renewed (rule 4(b)).
func (m *merging) add(bucket *v1alpha1.Bucket) {
	first := m.bucket == nil
	if first {
		m.bucket = &v1alpha1.Bucket{StartTime: bucket.StartTime}
	}
	into := m.bucket
	into.Counter = Add(into.Counter, max(bucket.Counter, 0))
	if relabels(bucket) {
		into.Operation, into.PodVersion = bucket.Operation, max(into.PodVersion, relabelOf(bucket))
	}
	if bucket.StartTime.Time.Before(into.StartTime.Time) {
		into.StartTime = bucket.StartTime
	}
	if end := latest(bucket); into.EndTime == nil || end.After(into.EndTime.Time) {
		into.EndTime = bucket.StartTime.DeepCopy()
		into.EndTime.Time = end
	}
	if first && isMerged(bucket) {
		into.PodUIDHashes, m.runs = slices.Clone(bucket.PodUIDHashes[:hashes(bucket)*hashSize]), runsOf(bucket)
		return
	}
	if !isMerged(bucket) {
		m.insert(binary.BigEndian.AppendUint64(nil, uint64(HashUID(bucket.PodUID))), bucket.StartTime.Time)
		return
	}
	for i, stamp := range members(bucket) {
		m.insert(bucket.PodUIDHashes[i*hashSize:(i+1)*hashSize], stamp)
	}
}

// insert keeps the order of times.
func (m *merging) insert(hash []byte, stamp time.Time) {
	i, at := len(m.runs), len(m.bucket.PodUIDHashes)
	for i > 0 && m.runs[i-1].stamp.After(stamp) {
		i--
		at -= m.runs[i].n * hashSize
	}
	m.bucket.PodUIDHashes = slices.Insert(m.bucket.PodUIDHashes, at, hash...)
	if i > 0 && m.runs[i-1].stamp.Equal(stamp) {
		m.runs[i-1].n++
		return
	}
	m.runs = slices.Insert(m.runs, i, run{stamp, 1})
}

// merged is the bucket when all are added; empty if none was.
func (m *merging) merged() []v1alpha1.Bucket {
	if m.bucket == nil {
		return nil
	}
	setTimes(m.bucket, m.runs)
	return []v1alpha1.Bucket{*m.bucket}
}
