package quota

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// UIDHash identifies a pod in a merged bucket: the first 8 bytes of the SHA-256 of its UID. Among 10,000 pods, two share a hash with
// a probability of 3e-12. A shared hash could admit one removal without a reservation.
type UIDHash uint64

// HashUID returns the hash of a pod's UID.
func HashUID(uid types.UID) UIDHash {
	sum := sha256.Sum256([]byte(uid))
	return UIDHash(binary.BigEndian.Uint64(sum[:]))
}

const hashSize = 8

// Reservation is one open reservation.
type Reservation struct {
	Hash UIDHash
	// Stamp is the time at which the reservation was last made or renewed, or later. If an earlier version merged it, only the latest
	// time of its bucket is known. A caller that times a reservation restarts its timer when the stamp changes.
	Stamp time.Time
	// PodName is empty for a merged reservation.
	PodName string
	// Update is the update of the pod. It is zero if there is none.
	Update Update
	// Relabel is the resourceVersion of the pod in the review of a relabel; 0 if the pod may also be removed.
	Relabel int64
}

func singleReservation(bucket *v1alpha1.Bucket) Reservation {
	return Reservation{HashUID(bucket.PodUID), bucket.StartTime.Time, bucket.PodName, updateOf(bucket), relabelVersion(bucket)}
}

// mergedReservation returns one reservation of a merged bucket.
func mergedReservation(bucket *v1alpha1.Bucket, i int, stamp time.Time) Reservation {
	return Reservation{Hash: hashAt(bucket, i), Stamp: stamp, Relabel: relabelVersion(bucket)}
}

// Open returns the number of open reservations that reduce the budget, |H_c|: all except those of updates whose pods are not
// available in the counts. Those of escrows are included.
func Open(h *v1alpha1.AdmissionHistory) int {
	open := Escrowed(h)
	for i := range h.Buckets {
		if !h.Buckets[i].Accounted {
			open += max(int(h.Buckets[i].Counter), 0)
		}
	}
	return open
}

// Reservations yields the open reservations, oldest first.
func Reservations(h *v1alpha1.AdmissionHistory) iter.Seq[Reservation] {
	return func(yield func(Reservation) bool) {
		for i := range h.Buckets {
			bucket := &h.Buckets[i]
			if !isMerged(bucket) {
				if !yield(singleReservation(bucket)) {
					return
				}
				continue
			}
			for j, stamp := range mergedTimes(bucket) {
				if !yield(mergedReservation(bucket, j, stamp)) {
					return
				}
			}
		}
	}
}

// position is the position of a reservation: its bucket and, in a merged bucket, the index of its hash.
type position struct {
	bucket, hash int
}

func findReservation(h *v1alpha1.AdmissionHistory, uid types.UID) (position, bool) {
	for i := range h.Buckets {
		if h.Buckets[i].PodUID == uid {
			return position{bucket: i}, true
		}
	}
	return findMerged(h, HashUID(uid))
}

// findHash finds the reservation of a pod of which only the hash is known. It hashes the pods of all single reservations.
func findHash(h *v1alpha1.AdmissionHistory, hash UIDHash) (position, bool) {
	for i := range h.Buckets {
		if !isMerged(&h.Buckets[i]) && HashUID(h.Buckets[i].PodUID) == hash {
			return position{bucket: i}, true
		}
	}
	return findMerged(h, hash)
}

func findMerged(h *v1alpha1.AdmissionHistory, hash UIDHash) (position, bool) {
	for i := range h.Buckets {
		bucket := &h.Buckets[i]
		if !isMerged(bucket) {
			continue
		}
		for j := range hashCount(bucket) {
			if hashAt(bucket, j) == hash {
				return position{bucket: i, hash: j}, true
			}
		}
	}
	return position{}, false
}

// stampAt returns the time of a reservation.
func stampAt(h *v1alpha1.AdmissionHistory, at position) time.Time {
	bucket := &h.Buckets[at.bucket]
	if isMerged(bucket) {
		for j, stamp := range mergedTimes(bucket) {
			if j == at.hash {
				return stamp
			}
		}
	}
	return bucket.StartTime.Time
}

// removeReservation drops one reservation and keeps the order of the others.
func removeReservation(h *v1alpha1.AdmissionHistory, at position) {
	bucket := &h.Buckets[at.bucket]
	if isMerged(bucket) && bucket.Counter > 1 {
		keepMerged(bucket, func(place int, _ Reservation) bool { return place != at.hash })
		return
	}
	h.Buckets = slices.Delete(h.Buckets, at.bucket, at.bucket+1)
}

func isMerged(bucket *v1alpha1.Bucket) bool { return bucket.PodUID == "" }

func hashCount(bucket *v1alpha1.Bucket) int { return len(bucket.PodUIDHashes) / hashSize }

func hashAt(bucket *v1alpha1.Bucket, i int) UIDHash {
	return UIDHash(binary.BigEndian.Uint64(bucket.PodUIDHashes[i*hashSize:]))
}

// holderCount returns the number of requests that hold a single reservation.
func holderCount(bucket *v1alpha1.Bucket) int32 { return max(bucket.Holders, 1) }

// latestTime returns the time of the newest reservation of a bucket.
func latestTime(bucket *v1alpha1.Bucket) time.Time {
	if bucket.EndTime != nil {
		return bucket.EndTime.Time
	}
	return bucket.StartTime.Time
}
