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
	// Down means that it is, and that the counts of the snapshot do not have it since it is not available.
	Down
	// Gone means that the pod is absent or terminating in the snapshot that the cell's counts were taken from, and no
	// later snapshot will count it.
	Gone
	// Expired means that the admission deadline has passed since the reservation was first seen with its present stamp,
	// and a live read after that showed the pod alive: its removal can no longer succeed. Of an update it means that the
	// live read showed the pod as it was before.
	Expired
	// Unremoved means the same of a pod that was to be removed or relabelled while it was updated: the update may still be under way.
	Unremoved
	// Relabeled means that the snapshot has the pod of a relabel at a later version than the reviewed one: the change is in the
	// counts, or has failed (rule 14).
	Relabeled
	// Superseded means that the cell goes by time, and that something was heard of it that is later than the reservation.
	Superseded
	// Updated means that the pod was seen updated and available again.
	Updated
	// Overdue means that the pod was not seen so for as long as the protector allows.
	Overdue
)

// Settled is how many reservations were dropped, by what was seen of their pods.
type Settled struct {
	Gone, Expired, Relabeled, Superseded, Updated int
	// Overdue are those whose pods did not come back in time.
	Overdue []Reservation
}

// Any tells whether there are any.
func (s *Settled) Any() bool {
	return s.Gone+s.Expired+s.Relabeled+s.Superseded+s.Updated+len(s.Overdue) > 0
}

// Settle drops the reservations of one cell that have ended, and notes of those of updates whether their pods are counted.
// It must be part of the same write that sets the cell's counts; every other reservation stays and keeps reducing the
// budget.
func Settle(h *v1alpha1.AdmissionHistory, see func(Reservation) Sighting) Settled {
	var done Settled
	settled := func(r Reservation, sighting Sighting) bool {
		switch sighting {
		case Gone:
			done.Gone++
		case Expired:
			done.Expired++
		case Relabeled:
			done.Relabeled++
		case Superseded:
			done.Superseded++
		case Updated:
			done.Updated++
		case Overdue:
			done.Overdue = append(done.Overdue, r)
		default:
			return false
		}
		return true
	}
	for i := range h.Buckets {
		bucket := &h.Buckets[i]
		if isMerged(bucket) {
			keepMembers(bucket, func(_ int, r Reservation) bool { return !settled(r, see(r)) })
			continue
		}
		r := single(bucket)
		sighting := see(r)
		if settled(r, sighting) {
			bucket.Counter = 0
			continue
		}
		if sighting == Unremoved {
			bucket.Operation, bucket.PodVersion = v1alpha1.OperationUpdate, 0
		}
		bucket.Accounted = sighting == Down && !r.Update.None()
	}
	h.Buckets = slices.DeleteFunc(h.Buckets, func(bucket v1alpha1.Bucket) bool { return bucket.Counter <= 0 })
	return done
}
