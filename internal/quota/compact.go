package quota

import (
	"encoding/binary"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// DefaultCompactThreshold is the compactThreshold of a spec that has none.
const DefaultCompactThreshold = 20

// mostBuckets is how many buckets of a cell there may be before even those are merged that could be given back;
// the CRD allows a few more.
const mostBuckets = 2000

// CompactThreshold returns how many reservations of a cell are kept one by one.
func CompactThreshold(spec *v1alpha1.PodProtectorSpec) int {
	if spec.AdmissionHistory.CompactThreshold == nil {
		return DefaultCompactThreshold
	}
	return int(*spec.AdmissionHistory.CompactThreshold)
}

// Compact merges the oldest reservations of each cell until at most the spec's compactThreshold single ones are
// left, besides those of updates and those that may still be given back at the time now. It keeps the total, since losing one would
// admit one too many, and the identity of each, so that a repeated removal is still recognised and settlement
// still finds its pod.
func Compact(p *v1alpha1.PodProtector, now time.Time) {
	threshold := CompactThreshold(&p.Spec)
	for i := range p.Status.Cells {
		compact(&p.Status.Cells[i].AdmissionHistory, threshold, now)
	}
}

func compact(h *v1alpha1.AdmissionHistory, threshold int, now time.Time) {
	surplus, mergedBuckets := -threshold, 0
	if len(h.Buckets) > mostBuckets {
		now = forever
	}
	for i := range h.Buckets {
		switch bucket := &h.Buckets[i]; {
		case isMerged(bucket):
			mergedBuckets++
		case isMergeable(bucket, now):
			surplus++
		}
	}
	if surplus <= 0 && mergedBuckets <= 1 {
		return
	}
	var merged *v1alpha1.Bucket
	kept := make([]v1alpha1.Bucket, 1, len(h.Buckets)+1)
	for i := range h.Buckets {
		bucket := &h.Buckets[i]
		switch {
		case isMerged(bucket):
		case surplus > 0 && isMergeable(bucket, now):
			surplus--
		default:
			kept = append(kept, *bucket)
			continue
		}
		merged = merge(merged, bucket)
	}
	kept[0] = *merged
	h.Buckets = kept
}

// forever is later than any time until which a reservation may be given back.
var forever = time.Unix(1<<40, 0) //nolint:gochecknoglobals // a constant in all but the language's sense

// isMergeable tells whether a single reservation may lose all but its pod's hash: not while it may be given back, and not that of
// an update, whose end is told by more.
func isMergeable(bucket *v1alpha1.Bucket, now time.Time) bool {
	revocable := bucket.RevocableUntil != nil && now.Before(bucket.RevocableUntil.Time)
	return !revocable && bucket.Generation == 0
}

// merge adds a bucket to a merged one, nil at first.
func merge(into, bucket *v1alpha1.Bucket) *v1alpha1.Bucket {
	if into == nil {
		into = &v1alpha1.Bucket{StartTime: bucket.StartTime}
	}
	into.Counter += bucket.Counter
	if isMerged(bucket) {
		into.PodUIDHashes = append(into.PodUIDHashes, bucket.PodUIDHashes...)
	} else {
		into.PodUIDHashes = binary.BigEndian.AppendUint64(into.PodUIDHashes, uint64(HashUID(bucket.PodUID)))
	}
	if bucket.StartTime.Time.Before(into.StartTime.Time) {
		into.StartTime = bucket.StartTime
	}
	if end := latest(bucket); into.EndTime == nil || end.After(into.EndTime.Time) {
		into.EndTime = bucket.StartTime.DeepCopy()
		into.EndTime.Time = end
	}
	return into
}
