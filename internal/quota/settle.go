package quota

import (
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Sighting is what is known of the pod of a reservation.
type Sighting int

const (
	// Unseen means that neither the snapshot nor a live read has told; the snapshot may be older than the pod.
	Unseen Sighting = iota
	// Alive means that the pod is in the snapshot and not terminating.
	Alive
	// Gone means that the pod is absent or terminating in the snapshot that the cell's counts were taken from, and no
	// later snapshot will count it.
	Gone
	// Expired means that the admission deadline has passed since the reservation was first seen with its present stamp,
	// and a live read after that showed the pod alive: its removal can no longer succeed.
	Expired
)

// Settle drops the reservations of one cell that are Gone or Expired, and returns how many of each. It must be
// part of the same write that sets the cell's counts; every other reservation stays and keeps reducing the
// budget.
func Settle(h *v1alpha1.AdmissionHistory, see func(Reservation) Sighting) (gone, expired int) {
	settled := func(r Reservation) bool {
		switch see(r) {
		case Gone:
			gone++
			return true
		case Expired:
			expired++
			return true
		default:
			return false
		}
	}
	h.Buckets = slices.DeleteFunc(h.Buckets, func(bucket v1alpha1.Bucket) bool {
		return !isMerged(&bucket) &&
			settled(Reservation{HashUID(bucket.PodUID), bucket.StartTime.Time, bucket.PodName})
	})
	for i := range h.Buckets {
		if bucket := &h.Buckets[i]; isMerged(bucket) {
			settleMerged(bucket, settled)
		}
	}
	h.Buckets = slices.DeleteFunc(h.Buckets, func(bucket v1alpha1.Bucket) bool { return bucket.Counter <= 0 })
	return gone, expired
}

func settleMerged(bucket *v1alpha1.Bucket, settled func(Reservation) bool) {
	kept := bucket.PodUIDHashes[:0]
	for i := range hashes(bucket) {
		if settled(Reservation{Hash: hashAt(bucket, i), Stamp: latest(bucket)}) {
			bucket.Counter--
			continue
		}
		kept = append(kept, bucket.PodUIDHashes[i*hashSize:(i+1)*hashSize]...)
	}
	bucket.PodUIDHashes = kept
}
