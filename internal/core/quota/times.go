package quota

import (
	"encoding/binary"
	"iter"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// run is a number of consecutive reservations of a merged bucket that were last made or renewed at the same time.
type run struct {
	stamp time.Time
	n     int
}

// runsOf returns the times of a merged bucket's reservations, in the order of its hashes. Versions without podTimes drop that field
// and do not write it. For such a bucket only the latest time is known. A change of it restarts the timers of all its reservations.
func runsOf(bucket *v1alpha1.Bucket) []run {
	n := hashCount(bucket)
	if runs, ok := decodeRuns(bucket.PodTimes, bucket.StartTime.Time, n); ok {
		return runs
	}
	return []run{{latestTime(bucket), n}}
}

// decodeRuns decodes podTimes. ok is false unless they cover exactly n reservations.
func decodeRuns(raw []byte, stamp time.Time, n int) (runs []run, ok bool) {
	for len(raw) > 0 {
		count, width := binary.Uvarint(raw)
		if width <= 0 || count == 0 || count > uint64(n) { //nolint:gosec // a length is not negative
			return nil, false
		}
		later, more := binary.Uvarint(raw[width:])
		if more <= 0 || later > uint64(maxRunGap/time.Microsecond) {
			return nil, false
		}
		stamp, raw, n = stamp.Add(time.Duration(later)*time.Microsecond), raw[width+more:], n-int(count)
		runs = append(runs, run{stamp, int(count)})
	}
	return runs, n == 0
}

// maxRunGap bounds the time between two runs. A longer time is malformed.
const maxRunGap = 100 * 365 * 24 * time.Hour

// setTimes stores the times of a merged bucket's reservations. They must be in the order of its hashes, and none before startTime.
func setTimes(bucket *v1alpha1.Bucket, runs []run) {
	bucket.PodTimes = nil
	if len(runs) == 1 && runs[0].stamp.Equal(latestTime(bucket)) {
		return // the same times are implied without the field
	}
	last := bucket.StartTime.Time
	for _, r := range runs {
		bucket.PodTimes = binary.AppendUvarint(bucket.PodTimes, uint64(r.n))                                //nolint:gosec // not negative
		bucket.PodTimes = binary.AppendUvarint(bucket.PodTimes, uint64(r.stamp.Sub(last)/time.Microsecond)) //nolint:gosec // runs are in order
		last = r.stamp
	}
}

// mergedTimes yields the index of each reservation of a merged bucket, and the time at which it was last made or renewed.
func mergedTimes(bucket *v1alpha1.Bucket) iter.Seq2[int, time.Time] {
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

// keepMerged drops the reservations of a merged bucket for which keep returns false.
func keepMerged(bucket *v1alpha1.Bucket, keep func(index int, r Reservation) bool) {
	var runs []run
	kept := make([]byte, 0, len(bucket.PodUIDHashes))
	for i, stamp := range mergedTimes(bucket) {
		if !keep(i, mergedReservation(bucket, i, stamp)) {
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

// bucketMerger is a merged bucket under construction.
type bucketMerger struct {
	bucket *v1alpha1.Bucket
	runs   []run
}

// add merges a single or merged bucket. Each reservation keeps its time, so that its timer continues. A reservation of an abandoned
// removal thus expires on time, however often other reservations are renewed (rule 4(b)).
func (m *bucketMerger) add(bucket *v1alpha1.Bucket) {
	first := m.bucket == nil
	if first {
		m.bucket = &v1alpha1.Bucket{StartTime: bucket.StartTime}
	}
	into := m.bucket
	into.Counter = AddSaturating(into.Counter, max(bucket.Counter, 0))
	if isRelabel(bucket) {
		into.Operation, into.PodVersion = bucket.Operation, max(into.PodVersion, relabelVersion(bucket))
	}
	if bucket.StartTime.Time.Before(into.StartTime.Time) {
		into.StartTime = bucket.StartTime
	}
	if end := latestTime(bucket); into.EndTime == nil || end.After(into.EndTime.Time) {
		into.EndTime = bucket.StartTime.DeepCopy()
		into.EndTime.Time = end
	}
	if first && isMerged(bucket) {
		into.PodUIDHashes, m.runs = slices.Clone(bucket.PodUIDHashes[:hashCount(bucket)*hashSize]), runsOf(bucket)
		return
	}
	if !isMerged(bucket) {
		m.insert(binary.BigEndian.AppendUint64(nil, uint64(HashUID(bucket.PodUID))), bucket.StartTime.Time)
		return
	}
	for i, stamp := range mergedTimes(bucket) {
		m.insert(bucket.PodUIDHashes[i*hashSize:(i+1)*hashSize], stamp)
	}
}

// insert adds a reservation and keeps the order of times.
func (m *bucketMerger) insert(hash []byte, stamp time.Time) {
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

// buckets returns the bucket after all reservations were added, or nothing if none was.
func (m *bucketMerger) buckets() []v1alpha1.Bucket {
	if m.bucket == nil {
		return nil
	}
	setTimes(m.bucket, m.runs)
	return []v1alpha1.Bucket{*m.bucket}
}
