package scenario

import (
	"math/rand/v2"
	"time"
)

// drawAbandonedRemovals adds removals that are admitted and abandoned after the last fault, and requests others when their reservations must have
// ended.
func drawAbandonedRemovals(s *Scenario, r *rand.Rand) {
	if r.IntN(4) > 0 || s.Generated {
		return
	}
	for i := range 2 + r.IntN(4) {
		s.Steps = append(s.Steps, Step{At: 62*time.Second + time.Duration(i)*time.Millisecond, What: CreatePod, Cell: r.IntN(s.Workers), Who: 1})
	}
	for range 3 + r.IntN(6) {
		s.Steps = append(s.Steps, Step{
			At: 70*time.Second + time.Duration(r.IntN(4000))*time.Millisecond, What: Delete, Cell: r.IntN(s.Workers), Who: r.IntN(16), For: time.Second,
			DeniedLater: true,
		})
	}
	for range 3 + r.IntN(6) {
		s.Steps = append(s.Steps, Step{
			At: 105*time.Second + time.Duration(r.IntN(4000))*time.Millisecond, What: []StepKind{Delete, Evict}[r.IntN(2)], Cell: r.IntN(s.Workers), Who: r.IntN(16),
			For: time.Second,
		})
	}
}

// Some clients retry forever: kubectl drain retries every 5 s an eviction that a PodDisruptionBudget refuses. Each attempt renews the
// reservation of its pod. Reservations of other pods whose removals are abandoned meanwhile must still end with the admission deadline
// (rule 4(b)).

const renewalStream = 0x6f7065772bd9

// drawRenewals adds, in a fourth of the seeds, clients that retry forever and share the protectors with abandoned removals.
func drawRenewals(s *Scenario, r *rand.Rand) {
	if r.IntN(4) > 0 {
		return
	}
	for i := range s.Protectors {
		s.Protectors[i].Compact, s.Protectors[i].Lag = r.IntN(3), 0
		s.Protectors[i].Floor = min(s.Protectors[i].Floor, 1+r.IntN(s.Pods))
	}
	for range 1 + r.IntN(5) {
		s.Steps = append(s.Steps, Step{At: randomTime(r), What: Renew, Cell: r.IntN(s.Workers), Who: r.IntN(16)})
	}
	for range r.IntN(5) {
		s.Steps = append(s.Steps, Step{
			At: StormTime/2 + randomTime(r)/2, What: []StepKind{Delete, Evict}[r.IntN(2)], Cell: r.IntN(s.Workers), Who: r.IntN(16), For: time.Second,
			DeniedLater: true,
		})
	}
}

// In a sixth of the seeds, users annotate pods with breakwater.dev/force-delete and remove them below the floor. Such a removal is
// reserved like any other, so that each later decision accounts for it. While the core is unreachable it is not reserved, and excuses the
// decisions that were made without it.

// forceStream is the random stream of removals by force. It was chosen so that it changes no seed that tests, mutants or docs name.
const forceStream = 0x666f7263002c

func drawForcedRemovals(s *Scenario, r *rand.Rand) {
	if r.IntN(6) == 0 {
		drawForceBursts(s, r)
	}
}

// drawForceBursts adds bursts of removals, some of them by force.
func drawForceBursts(s *Scenario, r *rand.Rand) {
	for range 1 + r.IntN(3) {
		begin, cell := randomTime(r), r.IntN(s.Workers)
		for range 1 + r.IntN(3) {
			step := Step{
				At: begin + time.Duration(r.IntN(4000))*time.Millisecond, What: Force, Cell: r.IntN(s.Workers), Who: r.IntN(16), N: r.IntN(2),
				For: time.Second, DeniedLater: r.IntN(8) == 0,
			}
			step.Stuck = randomHang(r, 4)
			s.Steps = append(s.Steps, step)
		}
		for range 2 + r.IntN(8) {
			s.Steps = append(s.Steps, Step{
				At: begin + time.Duration(r.IntN(6000)-1000)*time.Millisecond, What: []StepKind{Delete, Delete, Evict}[r.IntN(3)], Cell: cell,
				Who: r.IntN(16), For: time.Second,
			})
		}
	}
}
