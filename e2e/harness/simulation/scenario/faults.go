package scenario

import (
	"math/rand/v2"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// maxWatchDuration is the time after which every open watch has ended: client-go asks for five to ten minutes.
const maxWatchDuration = 10 * time.Minute

// drawFreeze stops an aggregator while its cell is restored and pods are created.
func drawFreeze(s *Scenario, r *rand.Rand) {
	if r.IntN(12) > 0 {
		return
	}
	begin, cell := randomTime(r), r.IntN(s.Workers)
	who := (r.IntN(s.Cores)*s.Workers+cell)*s.AggregatorsPerCell + r.IntN(s.AggregatorsPerCell)
	length := time.Duration(5+r.IntN(60)) * time.Second
	if r.IntN(2) == 0 {
		length = maxWatchDuration + time.Duration(r.IntN(60))*time.Second
	}
	s.Steps = append(s.Steps, Step{At: begin, What: FreezeAggregator, Who: who, For: length})
	for range 1 + r.IntN(4) {
		s.Steps = append(s.Steps, Step{At: begin - time.Duration(r.IntN(200))*time.Millisecond, What: CreatePod, Cell: cell, Who: 1})
	}
	s.Steps = append(s.Steps, Step{At: begin + length*9/10, What: RestoreWorker, Cell: cell, Who: 1 + r.IntN(8)})
	for i := range 3 + r.IntN(8) {
		s.Steps = append(s.Steps, Step{
			At: begin + length*9/10 + time.Duration(1+i)*200*time.Millisecond, What: []StepKind{Delete, CreatePod, Evict}[r.IntN(3)], Cell: cell, Who: r.IntN(16),
			For: time.Second,
		})
	}
}

// Where minReadySeconds is set, wall clocks determine how long pods have been ready. A webhook whose clock is minutes behind charges a pod
// that the newest count includes. An aggregator does not follow a step ahead that does not last. The judge therefore requires that a
// webhook accounts for how long pods have been ready by its own clock, or at the time of the newest count, whichever is later. A pod that
// becomes available after that is the readiness race.

const clockStream = 0x6f706580093c

// drawClocks sets clocks by minutes in a sixth of the seeds, where pods must be ready for some seconds and are created during removals. A
// leader that begins while its clock is wrong counts by that clock. So aggregators whose clocks step ahead lead throughout.
func drawClocks(s *Scenario, r *rand.Rand) {
	if r.IntN(6) > 0 {
		return
	}
	for i := range s.Protectors {
		s.Protectors[i].MinReady = 2 + r.IntN(12)
	}
	if r.IntN(2) == 0 {
		drawSteadyLeaders(s, r)
	}
	for i := range s.Webhooks {
		s.Steps = append(s.Steps, Step{At: randomTime(r) / 4, What: StepWebhookClock, Who: i, N: r.IntN(9) - 6})
	}
	for range 2 + r.IntN(4) {
		begin, cell := randomTime(r), r.IntN(s.Workers)
		for range 1 + r.IntN(4) {
			s.Steps = append(s.Steps, Step{
				At: begin + time.Duration(r.IntN(2000))*time.Millisecond, What: []StepKind{CreatePod, BecomeReady, BecomeUnready}[r.IntN(3)],
				Cell: cell, Who: 1 + r.IntN(15),
			})
		}
		for range 4 + r.IntN(8) {
			s.Steps = append(s.Steps, Step{
				At: begin + time.Duration(1000+r.IntN(18000))*time.Millisecond, What: []StepKind{Delete, Delete, Evict}[r.IntN(3)],
				Cell: cell, Who: r.IntN(16), For: time.Second,
			})
		}
	}
}

// drawSteadyLeaders removes all steps that end a leadership, and steps the clocks of leaders ahead.
func drawSteadyLeaders(s *Scenario, r *rand.Rand) {
	s.Storm.Weather, s.AggregatorsPerCell, s.Shared = apiserver.Weather{}, 1, false
	var kept []Step
	for _, step := range s.Steps {
		switch step.What {
		case KillAggregator, PauseAggregator, StopAggregator, CutLink, StallWatches, StallCell, DeleteLease, CompactHistory, RestartCluster,
			RestoreWorker, RestoreCore, JumpClock, LoseOne, LoseProtector, DeleteProtector:
		default:
			kept = append(kept, step)
		}
	}
	s.Steps = kept
	for range 1 + r.IntN(4) {
		s.Steps = append(s.Steps, Step{At: randomTime(r), What: StepAggregatorClock, Who: r.IntN(16), N: r.IntN(5)})
	}
}
