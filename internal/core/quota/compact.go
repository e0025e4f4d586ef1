package quota

import (
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// DefaultCompactThreshold is the compactThreshold of a spec that has none.
const DefaultCompactThreshold = 5

// maxBuckets is the number of buckets of a cell above which Compact also merges reservations that could be given back. The CRD
// allows a few more.
const maxBuckets = 2000

// CompactThreshold returns how many reservations of a cell are kept as single buckets.
func CompactThreshold(spec *v1alpha1.PodProtectorSpec) int {
	if spec.AdmissionHistory.CompactThreshold == nil {
		return DefaultCompactThreshold
	}
	return int(*spec.AdmissionHistory.CompactThreshold)
}

// Compact merges the oldest reservations of a cell until at most compactThreshold single ones are left. Reservations of updates, and
// those that may still be given back at the time now, do not count and are not merged. Compact keeps the total, since losing one
// reservation would admit one removal too many. It keeps the identity and time of each, so that a repeated removal is still
// recognized, settlement still finds its pod, and its timer continues. It merges relabels separately from removals, since they end
// differently. A webhook may change no other cells than those of the removals that it reserves (rule 15).
func Compact(p *v1alpha1.PodProtector, cellID string, now time.Time) {
	if cell := CellOf(p, cellID); cell != nil {
		compact(&cell.AdmissionHistory, CompactThreshold(&p.Spec), now)
	}
}

func compact(h *v1alpha1.AdmissionHistory, threshold int, now time.Time) {
	surplus, mergedBuckets := -threshold, map[bool]int{}
	if len(h.Buckets) > maxBuckets {
		now = forever
	}
	for i := range h.Buckets {
		switch bucket := &h.Buckets[i]; {
		case isMerged(bucket):
			mergedBuckets[isRelabel(bucket)]++
		case isMergeable(bucket, now):
			surplus++
		}
	}
	if surplus <= 0 && mergedBuckets[false] <= 1 && mergedBuckets[true] <= 1 {
		return
	}
	var removals, ofRelabels bucketMerger
	kept := make([]v1alpha1.Bucket, 0, len(h.Buckets)+2)
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
		if isRelabel(bucket) {
			ofRelabels.add(bucket)
		} else {
			removals.add(bucket)
		}
	}
	h.Buckets = slices.Concat(removals.buckets(), ofRelabels.buckets(), kept)
}

// isRelabel reports whether a bucket has only relabels.
func isRelabel(bucket *v1alpha1.Bucket) bool { return bucket.Operation == v1alpha1.OperationRelabel }

// forever is later than any time until which a reservation may be given back.
var forever = time.Unix(1<<40, 0) //nolint:gochecknoglobals // effectively a constant

// isMergeable reports whether a single reservation may be reduced to its pod's hash. It may not while it may be given back, nor if it
// is for an update, whose end depends on more data.
func isMergeable(bucket *v1alpha1.Bucket, now time.Time) bool {
	revocable := bucket.RevocableUntil != nil && now.Before(bucket.RevocableUntil.Time)
	return !revocable && bucket.Generation == 0
}
