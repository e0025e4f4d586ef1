package simulation

import (
	"slices"
	"time"
)

// A removal is judged by the floor of the version that it was decided on: raising or lowering the floor later does not change what that
// decision may do. There is one exception: a removal that is admitted later, under a lower floor, may take effect first. Both together
// leave as many pods as the later decision requires.

// floorForDecision returns the floor that an effect must keep, whose decision was the nth on the protector under the given floor.
func (w *watchedProtector) floorForDecision(floor, nth int) int {
	if nth+1 < len(w.decidedFloors) {
		floor = min(floor, slices.Min(w.decidedFloors[nth+1:]))
	}
	return floor
}

// isDecidedAtZeroFloor reports whether a review that began at a time may have used a version with a floor of zero, under which the webhook reserves
// nothing. isUnseenBy judges a webhook that lags.
func (w *watchedProtector) isDecidedAtZeroFloor(requestedAt time.Time) bool {
	for i, f := range w.floors {
		ended := i+1 < len(w.floors) && !w.floors[i+1].at.After(requestedAt)
		if f.floor == 0 && !ended && !f.at.After(requestedAt.Add(webhookTimeout)) {
			return true
		}
	}
	return false
}
