package simulation

import (
	"slices"
	"time"
)

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
		if f.floor == 0 && !ended && !f.at.After(requestedAt.Add(webhookTimeout)) {
			return true
		}
	}
	return false
}
