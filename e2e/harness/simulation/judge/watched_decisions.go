package judge

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// reservationHistory is what the reservations of a protector were decided on, and what became of them, by pod.
type reservationHistory struct {
	// decisions are the states that each reservation was decided on.
	decisions map[quota.UIDHash]decision
	// removals are those that took effect by their reservations, by pod.
	removals map[quota.UIDHash]*Removal
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
	// lost is the decision on an earlier reservation of the pod that a restore of the core has lost; nil if there is none. A removal that was admitted
	// by that one may take effect after the pod was reserved again for another removal.
	lost *decision
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
		decisions: map[quota.UIDHash]decision{}, removals: map[quota.UIDHash]*Removal{}, overduePods: map[quota.UIDHash]bool{},
	}
}

// hasExpired reports whether the admission deadline has passed since a reservation was made or renewed.
func (h *reservationHistory) hasExpired(hash quota.UIDHash) bool {
	decided, known := h.decisions[hash]
	return known && time.Since(decided.at) >= scenario.AdmissionDeadline
}

// recordRemoval records that a removal took effect by the reservation of its pod. Relabels and updates leave the pod in existence.
func (h *reservationHistory) recordRemoval(pod types.UID, r *Removal, isCharged bool) {
	if isCharged && r.Relabel == nil && r.Update == nil {
		h.removals[quota.HashUID(pod)] = r
	}
}

// recordForced records that a reservation was made although it breaks the floor.
func (h *reservationHistory) recordForced(hash quota.UIDHash) {
	decided := h.decisions[hash]
	decided.isForced = true
	h.decisions[hash] = decided
}

// A removal is judged by the floor of the version that it was decided on: raising or lowering the floor later does not change what that
// decision may do. There is one exception: a removal that is admitted later, under a lower floor, may take effect first. Both together
// leave as many pods as the later decision requires.

// effectiveFloors are the floors of a protector in force over time, and those of its decisions.
type effectiveFloors struct {
	overTime []floorSince
	// decided are the floors of all decisions in their order.
	decided []int
}

type floorSince struct {
	at    time.Time
	floor int
}

// record records the floor in force from now on.
func (h *effectiveFloors) record(floor int) {
	if last, known := h.last(); !known || last != floor {
		h.overTime = append(h.overTime, floorSince{at: time.Now(), floor: floor})
	}
}

// last returns the last recorded floor.
func (h *effectiveFloors) last() (floor int, known bool) {
	if len(h.overTime) == 0 {
		return 0, false
	}
	return h.overTime[len(h.overTime)-1].floor, true
}

// highestSince returns the highest floor since a time.
func (h *effectiveFloors) highestSince(at time.Time) int {
	highest := 0
	for i, f := range h.overTime {
		if i+1 == len(h.overTime) || h.overTime[i+1].at.After(at) {
			highest = max(highest, f.floor)
		}
	}
	return highest
}

// lowestSince returns the lowest floor since a time.
func (h *effectiveFloors) lowestSince(at time.Time) int {
	lowest, _ := h.last()
	for i, f := range h.overTime {
		if i+1 == len(h.overTime) || h.overTime[i+1].at.After(at) {
			lowest = min(lowest, f.floor)
		}
	}
	return lowest
}

// forDecision returns the floor that an effect must keep, whose decision was the nth on the protector under the given floor.
func (h *effectiveFloors) forDecision(floor, nth int) int {
	if nth+1 < len(h.decided) {
		floor = min(floor, slices.Min(h.decided[nth+1:]))
	}
	return floor
}

// isDecidedAtZero reports whether a review that began at a time may have used a version with a floor of zero, under which the webhook reserves
// nothing. isUnseenBy judges a webhook that lags.
func (h *effectiveFloors) isDecidedAtZero(requestedAt time.Time) bool {
	for i, f := range h.overTime {
		ended := i+1 < len(h.overTime) && !h.overTime[i+1].at.After(requestedAt)
		if f.floor == 0 && !ended && !f.at.After(requestedAt.Add(scenario.WebhookTimeout)) {
			return true
		}
	}
	return false
}
