package quota

import (
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Observation is the observed state of a reservation's pod.
type Observation int

const (
	// Unobserved means that neither the snapshot nor a live read has shown the state. The snapshot may be older than the pod.
	Unobserved Observation = iota
	// Alive means that the pod is in the snapshot and not terminating.
	Alive
	// Unavailable means that the pod is alive, but not available, so that the counts of the snapshot do not include it.
	Unavailable
	// Absent means that the pod is absent or terminating in the snapshot that the cell's counts were taken from. No later snapshot will
	// count it.
	Absent
	// Expired means that the admission deadline has passed since the reservation was first seen with its present stamp, and a live read
	// after that showed the pod alive: its removal can no longer succeed. For an update, the live read showed the pod as it was before.
	Expired
	// RemovalExpired means the same for a pod that was to be removed or relabeled during an update: the update may still be in progress.
	RemovalExpired
	// Relabeled means that the snapshot has the pod of a relabel at a later version than the reviewed one: the counts reflect the
	// change, or it has failed (rule 14).
	Relabeled
	// Superseded means that the cell settles by events (mode Clock or Status), and that an event later than the reservation arrived from it.
	Superseded
	// Updated means that the pod was seen updated and available again.
	Updated
	// Overdue means that the pod was not seen updated and available within the time that the protector allows.
	Overdue
)

// Settled has the number of dropped reservations, by the observed state of their pods.
type Settled struct {
	Absent, Expired, Relabeled, Superseded, Updated int
	// Overdue has the reservations whose pods did not come back in time.
	Overdue []Reservation
}

// HasAny reports whether there are any.
func (s *Settled) HasAny() bool {
	return s.Absent+s.Expired+s.Relabeled+s.Superseded+s.Updated+len(s.Overdue) > 0
}

// Settle drops the ended reservations of one cell. For those of updates it records whether the counts already account for their pods.
// It must be part of the same write that sets the cell's counts. Every other reservation stays and continues to reduce the budget.
func Settle(h *v1alpha1.AdmissionHistory, observe func(Reservation) Observation) Settled {
	var result Settled
	settled := func(r Reservation, observation Observation) bool {
		switch observation {
		case Absent:
			result.Absent++
		case Expired:
			result.Expired++
		case Relabeled:
			result.Relabeled++
		case Superseded:
			result.Superseded++
		case Updated:
			result.Updated++
		case Overdue:
			result.Overdue = append(result.Overdue, r)
		default:
			return false
		}
		return true
	}
	for i := range h.Buckets {
		bucket := &h.Buckets[i]
		if isMerged(bucket) {
			keepMerged(bucket, func(_ int, r Reservation) bool { return !settled(r, observe(r)) })
			continue
		}
		r := singleReservation(bucket)
		observation := observe(r)
		if settled(r, observation) {
			bucket.Counter = 0
			continue
		}
		if observation == RemovalExpired {
			bucket.Operation, bucket.PodVersion = v1alpha1.OperationUpdate, 0
		}
		bucket.Accounted = observation == Unavailable && !r.Update.IsEmpty()
	}
	h.Buckets = slices.DeleteFunc(h.Buckets, func(bucket v1alpha1.Bucket) bool { return bucket.Counter <= 0 })
	return result
}
