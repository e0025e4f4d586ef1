package aggregator

import (
	"testing"
	"time"
)

// A leader that begins after a restore cannot determine how long ago it was: the leader that recorded it may have died in the
// same second.
func TestProtectorWithoutCountsWaitsAfterCoreRestore(t *testing.T) {
	for claim, test := range map[string]struct {
		lost  int
		since time.Duration
		waits bool
	}{
		"never restored":           {},
		"restored, a new leader":   {lost: 7, waits: true},
		"restored, nearly settled": {lost: 7, since: simulatedInFlight - time.Second, waits: true},
		"restored, settled":        {lost: 7, since: simulatedInFlight},
	} {
		t.Run(claim, func(t *testing.T) {
			w := newSimulatedCell(1, 4)
			w.lostVersion = test.lost
			w.lead()
			w.clock = w.clock.Add(test.since)
			if wait := w.newest().reconciler.delays.afterLoss(w.key(), w.stored, nil); wait > 0 != test.waits {
				t.Errorf("afterLoss() = %s, want a delay: %t", wait, test.waits)
			}
		})
	}
}
