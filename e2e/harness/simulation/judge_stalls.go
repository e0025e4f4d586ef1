package simulation

import "time"

// stalls are the times at which processes were stalled, so that they act on older state. The lock of the judge guards them.
type stalls struct{ byProcess map[string][]stall }

type stall struct{ from, to time.Time }

func newStalls() *stalls { return &stalls{byProcess: map[string][]stall{}} }

// recordStall records that a process is stalled, or receives no events, for a while.
func (j *judge) recordStall(p *replica, length time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stalls.byProcess[p.name] = append(j.stalls.byProcess[p.name], stall{time.Now(), time.Now().Add(length)})
}

// oldestObservedState returns how old the state may be that a process acts on, given that without stalls it would act on the state since from.
func (s *stalls) oldestObservedState(process string, from time.Time) time.Time {
	for again := true; again; {
		again = false
		for _, stalled := range s.byProcess[process] {
			if earlier := stalled.from.Add(-maxInFlightRelease); !stalled.to.Before(from) && earlier.Before(from) {
				from, again = earlier, true
			}
		}
	}
	return from
}
