package simulation

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// reservationHistory is what the reservations of a protector were decided on, and what became of them, by pod.
type reservationHistory struct {
	// decisions are the states that each reservation was decided on.
	decisions map[quota.UIDHash]decision
	// removals are those that took effect by their reservations, by pod.
	removals map[quota.UIDHash]*removal
	// overduePods are the pods whose reservation of an update was dropped after the timeout.
	overduePods map[quota.UIDHash]bool
}

// decision is the state that a reservation was decided on.
type decision struct {
	at          time.Time
	version     uint64
	countedSpec string
	// floor is the floor of the version that it was made on. position is its place among the decisions on the protector.
	floor, position int
	// isForced reports whether it was admitted only because of an annotation of the pod.
	isForced bool
	// isRestored reports whether a restore of the core brought the reservation back, at the time of the decision.
	isRestored bool
	// isBlindToRestore reports whether it was decided by counts of a lost history that the webhook could not recognize as such.
	isBlindToRestore bool
	// snapshots are the snapshots of the cells that were summed.
	snapshots map[string]observedVersion
	// firstCharge is the first of the decisions on the reservation, if it was renewed.
	firstCharge charge
}

// charge is when a removal was charged, and by which snapshots.
type charge struct {
	at              time.Time
	version         uint64
	floor, position int
	snapshots       map[string]observedVersion
}

func newReservationHistory() reservationHistory {
	return reservationHistory{
		decisions: map[quota.UIDHash]decision{}, removals: map[quota.UIDHash]*removal{}, overduePods: map[quota.UIDHash]bool{},
	}
}

// hasExpired reports whether the admission deadline has passed since a reservation was made or renewed.
func (h *reservationHistory) hasExpired(hash quota.UIDHash) bool {
	decided, known := h.decisions[hash]
	return known && time.Since(decided.at) >= admissionDeadline
}

// recordRemoval records that a removal took effect by the reservation of its pod. Relabels and updates leave the pod in existence.
func (h *reservationHistory) recordRemoval(pod types.UID, r *removal, isCharged bool) {
	if isCharged && r.relabel == nil && r.update == nil {
		h.removals[quota.HashUID(pod)] = r
	}
}

// recordForced records that a reservation was made although it breaks the floor.
func (h *reservationHistory) recordForced(hash quota.UIDHash) {
	decided := h.decisions[hash]
	decided.isForced = true
	h.decisions[hash] = decided
}
