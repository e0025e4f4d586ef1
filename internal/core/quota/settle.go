package quota

import (
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Sighting is the observed state of a reservation's pod.
type Sighting int

const (
	// Unseen means that neither the snapshot nor a live read has shown the state. The snapshot may be older than the pod.
	Unseen Sighting = iota
	// Alive means that the pod is in the snapshot and not terminating.
	Alive
	// Down means that the pod is alive, but not available, so that the counts of the snapshot do not include it.
	Down
	// Gone means that the pod is absent or terminating in the snapshot that the cell's counts were taken from. No later snapshot will
	// count it.
	Gone
	// Expired means that the admission deadline has passed since the reservation was first seen with its present stamp, and a live read
	// after that showed the pod alive: its removal can no longer succeed. For an update, the live read showed the pod as it was before.
	Expired
	// Unremoved means the same for a pod that was to be removed or relabeled during an update: the update may still be in progress.
	Unremoved
	// Relabeled means that the snapshot has the pod of a relabel at a later version than the reviewed one: the counts reflect the
	// change, or it has failed (rule 14).
	Relabeled
	// Superseded means that the cell uses Clock settlement, and that an event later than the reservation arrived from it.
	Superseded
	// Updated means that the pod was seen updated and available again.
	Updated
	// Overdue means that the pod was not seen updated and available within the time that the protector allows.
	Overdue
)

// Settled has the number of dropped reservations, by the sighting of their pods.
type Settled struct {
	Gone, Expired, Relabeled, Superseded, Updated int
	// Overdue has the reservations whose pods did not come back in time.
	Overdue []Reservation
}

// Any reports whether there are any.
func (s *Settled) Any() bool {
	return s.Gone+s.Expired+s.Relabeled+s.Superseded+s.Updated+len(s.Overdue) > 0
}

// Settle drops the ended reservations of one cell. For those of updates it records whether the counts already account for their pods.
// It must be part of the same write that sets the cell's counts. Every other reservation stays and continues to reduce the budget.
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
