package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Where minReadySeconds is set, wall clocks determine how long pods have been ready. A webhook whose clock is minutes behind charges a pod
// that the newest count includes. An aggregator does not follow a step ahead that does not last. The judge therefore requires that a
// webhook accounts for how long pods have been ready by its own clock, or at the time of the newest count, whichever is later. A pod that
// becomes available after that is the readiness race.

const clockStream = 0x6f706580093c

// chargeableBy returns the time by which a pod must have been ready for long enough for a protector to charge its removal.
func (r *removal) chargeableBy(w *watchedProtector, lenience time.Duration) time.Time {
	at := r.requestedAt.Add(-lenience)
	behind := r.requestedAt.Add(r.skew)
	if !behind.Before(at) {
		return at
	}
	if counted := r.countedAt[w]; counted.After(behind) {
		behind = counted
	}
	if behind.Before(at) {
		return behind
	}
	return at
}

// recordReviewClock records how far the clock by which a removal is reviewed is ahead, and when each protector was last counted. It runs when the review begins,
// so that the webhook reads that count or a later one.
func (j *judge) recordReviewClock(cell string, r *removal, skew time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.skew, r.countedAt = skew, map[*watchedProtector]time.Time{}
	for _, w := range j.history.protectors {
		if w.stored == nil {
			continue
		}
		if c := quota.CellOf(w.stored, cell); c != nil && c.Aggregation.CountedSpec == quota.CountedSpec(&w.stored.Spec) {
			r.countedAt[w] = c.Aggregation.LastEventTime.Time
		}
	}
}

// stepClock sets the clock of a webhook or an aggregator by minutes, independent of how protectors count.
func (f *processFaults) stepClock(s Step) {
	all := f.processes.webhookProcesses
	if s.What == StepAggregatorClock {
		all = f.processes.aggregators
	}
	if p, ok := pick(all, s.Who); ok {
		p.skew.Store(int64(time.Duration(s.N) * time.Minute))
	}
}

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
