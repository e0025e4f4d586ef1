package scenario

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// DrawEscrows draws storms in which replicas reserve in advance: the core is far away, many pods are removed at once, and in the midst of that happens what
// ends an escrow, or what it must not outlive.
func DrawEscrows(seed uint64) Scenario {
	r := newRand(seed, 0x657363726f77)
	s := Scenario{
		Seed: seed, Cores: 1, Workers: 1 + r.IntN(2), Webhooks: 1 + r.IntN(3), AggregatorsPerCell: 1 + r.IntN(2), Pods: 12 + r.IntN(24),
	}
	s.Storm.Weather = apiserver.Weather{Slow: time.Duration(20+r.IntN(200)) * time.Millisecond, Lag: time.Duration(1+r.IntN(1500)) * time.Millisecond}
	if r.IntN(2) == 0 {
		s.Storm.Weather.Lose, s.Storm.Weather.Break = r.Float64()*0.1, r.Float64()*0.05
		s.Storm.LoseAnswers, s.Storm.DenyEvictions = r.Float64()*0.2, r.Float64()*0.5
	}
	s.Protectors = []ProtectorPlan{{Name: "p0", Label: "app", Floor: r.IntN(s.Pods), Compact: r.IntN(5), RateMillis: r.IntN(3) * 500}}
	for range 1 + r.IntN(3) {
		drawEscrowBurst(&s, r)
	}
	slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return s
}

// drawEscrowBurst adds a burst of removals, and faults between its first and its last.
func drawEscrowBurst(s *Scenario, r *rand.Rand) {
	begin, width := randomTime(r), time.Duration(500+r.IntN(4000))*time.Millisecond
	during := func() time.Duration { return begin + time.Duration(r.Int64N(int64(width))) }
	for range 8 + r.IntN(24) {
		s.Steps = append(s.Steps, Step{
			At: during(), What: []StepKind{Delete, Delete, Evict, DryRun}[r.IntN(4)], Cell: r.IntN(s.Workers), Who: r.IntN(s.Pods), For: time.Second,
			Stuck: randomHang(r, 4), DeniedLater: r.IntN(8) == 0,
		})
	}
	faults := []StepKind{
		KillWebhook, KillWebhook, PauseWebhook, CutLink, StallWatches, KillAggregator, PauseAggregator, SetFloor, SetFloor, SetSelector, Die, Die, RestartCluster,
		RestoreCore, RestoreWorker,
	}
	for range r.IntN(4) {
		s.Steps = append(s.Steps, Step{
			At: during(), What: faults[r.IntN(len(faults))], Cell: r.IntN(s.Workers), Who: r.IntN(16), N: r.IntN(s.Pods),
			For: time.Duration(1+r.IntN(8000)) * time.Millisecond,
		})
	}
}
