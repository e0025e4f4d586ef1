package quota

import (
	"encoding/binary"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// DefaultCompactThreshold is the compactThreshold of a spec that has none.
const DefaultCompactThreshold = 100

// CompactThreshold returns how many reservations of a cell are kept one by one.
func CompactThreshold(spec *v1alpha1.PodProtectorSpec) int {
	if spec.AdmissionHistory.CompactThreshold == nil {
		return DefaultCompactThreshold
	}
	return int(*spec.AdmissionHistory.CompactThreshold)
}

// Compact merges the oldest reservations of each cell until at most the spec's compactThreshold single ones are
// left. It keeps the total, since losing one would admit one too many, and the identity of each, so that a
// repeated removal is still recognised and settlement still finds its pod.
func Compact(p *v1alpha1.PodProtector) {
	threshold := CompactThreshold(&p.Spec)
	for i := range p.Status.Cells {
		compact(&p.Status.Cells[i].AdmissionHistory, threshold)
	}
}

func compact(h *v1alpha1.AdmissionHistory, threshold int) {
	surplus, mergedBuckets := -threshold, 0
	for i := range h.Buckets {
		if isMerged(&h.Buckets[i]) {
			mergedBuckets++
		} else {
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
		case surplus > 0:
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
