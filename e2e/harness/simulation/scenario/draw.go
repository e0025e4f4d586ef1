package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// StormTime is how long steps happen before all faults end.
const StormTime = 40 * time.Second

func newRand(seed, kind uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, kind)) }

// Draw returns the scenario of a seed.
func Draw(seed uint64) Scenario {
	r := newRand(seed, 0x6272656b)
	s := Scenario{
		Seed: seed, Cores: 1, Workers: 1 + r.IntN(3), Webhooks: 1 + r.IntN(3), AggregatorsPerCell: 1 + r.IntN(2), Pods: 3 + r.IntN(14),
		Generated: r.IntN(4) == 0,
	}
	if r.IntN(6) == 0 {
		s.Cores = 2
	}
	s.Storm = drawStorm(r)
	for i := range 1 + r.IntN(2) {
		s.Protectors = append(s.Protectors, ProtectorPlan{
			Name: fmt.Sprintf("p%d", i), Label: []string{"app", "tier"}[i], Core: r.IntN(s.Cores), Floor: r.IntN(s.Pods + 1),
			Compact: r.IntN(5), Lag: max(0, r.IntN(12)-6), MinReady: max(0, r.IntN(8)-5), RateMillis: r.IntN(3) * 500,
		})
	}
	for range 1 + r.IntN(4) {
		drawBurst(&s, r)
	}
	for range r.IntN(8) {
		drawChange(&s, r)
	}
	for range r.IntN(6) {
		drawFault(&s, r)
	}
	if r.IntN(4) == 0 {
		drawStalledCell(&s, r)
	}
	if r.IntN(6) == 0 {
		drawWrongClocks(&s, r)
	}
	if r.IntN(6) == 0 {
		drawTwoLeaders(&s, r)
	}
	if r.IntN(6) == 0 {
		drawCoreRestore(&s, r)
	}
	if s.Generated {
		drawSource(&s, r)
	}
	if r.IntN(4) == 0 {
		drawProtectorLosses(&s, r)
	}
	drawSpread(&s, newRand(seed, 0x6c6f7373d9))
	drawDecreases(&s, newRand(seed, 0x6272616c16))
	drawCoverageChanges(&s, newRand(seed, 0x776964656e))
	drawComputed(&s, newRand(seed, 0x666c6f6f72))
	drawRelabels(&s, newRand(seed, relabelStream))
	drawRenewals(&s, newRand(seed, renewalStream))
	drawClocks(&s, newRand(seed, clockStream))
	drawAbandonedRemovals(&s, newRand(seed, 0x757361626c65))
	drawFreeze(&s, newRand(seed, 0x667265657a65))
	drawCriteria(&s, newRand(seed, criteriaStream))
	drawForcedRemovals(&s, newRand(seed, forceStream))
	drawTopology(&s, newRand(seed, topologyStream))
	drawUpdates(&s, newRand(seed, updateStream))
	drawReadiness(&s, newRand(seed, readinessStream))
	drawPolicies(&s, newRand(seed, policyStream))
	slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return s
}

func drawStorm(r *rand.Rand) Storm {
	s := Storm{}
	if r.IntN(2) == 0 {
		s.LoseAnswers, s.DenyEvictions = r.Float64()*0.2, r.Float64()*0.5
	}
	if r.IntN(2) == 0 {
		s.Weather = apiserver.Weather{
			Slow: time.Duration(1+r.IntN(400)) * time.Millisecond, Lag: time.Duration(1+r.IntN(3000)) * time.Millisecond,
			Lose: r.Float64() * 0.1, Break: r.Float64() * 0.05,
		}
	}
	return s
}

func randomTime(r *rand.Rand) time.Duration { return time.Duration(r.Int64N(int64(StormTime))) }

// randomHang returns how long a request hangs after its review: a random time in one of n draws, otherwise 0.
func randomHang(r *rand.Rand, n int) time.Duration {
	if r.IntN(n) > 0 {
		return 0
	}
	return time.Duration(r.Int64N(int64(RequestLimit)))
}

// drawBurst adds many removals in a short time, some of the same pod.
func drawBurst(s *Scenario, r *rand.Rand) {
	begin, width := randomTime(r), time.Duration(1+r.IntN(3000))*time.Millisecond
	for range 1 + r.IntN(12) {
		step := Step{
			At: begin + time.Duration(r.Int64N(int64(width))), What: []StepKind{Delete, Delete, Delete, Evict, Evict, DeleteCollection, DryRun}[r.IntN(7)],
			Cell: r.IntN(s.Workers), Who: r.IntN(16), DeniedLater: r.IntN(8) == 0,
		}
		if r.IntN(3) > 0 {
			step.For = time.Duration(1+r.IntN(5000)) * time.Millisecond
		}
		step.Stuck = randomHang(r, 5)
		s.Steps = append(s.Steps, step)
		if r.IntN(4) == 0 { // another client sends the same request
			step.At += time.Duration(r.IntN(2000)) * time.Millisecond
			s.Steps = append(s.Steps, step)
		}
	}
}

// drawChange adds one other change of a pod, a protector or the Deployment.
func drawChange(s *Scenario, r *rand.Rand) {
	kinds := []StepKind{
		CreatePod, CreatePod, CreatePod, BecomeReady, BecomeReady, BecomeUnready, BecomeUnknown, Die, Relabel, SetFloor, SetFloor, SetSelector,
		ScaleSource, Rollout,
	}
	s.Steps = append(s.Steps, Step{
		At: randomTime(r), What: kinds[r.IntN(len(kinds))], Cell: r.IntN(s.Workers), Core: r.IntN(s.Cores), Who: r.IntN(16), N: r.IntN(s.Pods + 2),
	})
}

// drawStalledCell adds a cell whose aggregators see no events for a while, during which pods are created and removals are requested.
func drawStalledCell(s *Scenario, r *rand.Rand) {
	begin, cell := randomTime(r), r.IntN(s.Workers)
	s.Steps = append(s.Steps, Step{At: begin, What: StallCell, Cell: cell, For: 20 * time.Second})
	for range 1 + r.IntN(3) {
		s.Steps = append(s.Steps, Step{At: begin + time.Second, What: CreatePod, Cell: cell, Who: 1})
	}
	for range 2 + r.IntN(6) {
		s.Steps = append(s.Steps, Step{
			At: begin + time.Duration(1000+r.IntN(4000))*time.Millisecond, What: Delete, Cell: cell, Who: r.IntN(16), For: time.Second,
			Stuck: time.Duration(r.Int64N(int64(RequestLimit))),
		})
	}
}

// drawWrongClocks adds webhooks whose clocks are far behind, and removals that hang after their review by these webhooks.
func drawWrongClocks(s *Scenario, r *rand.Rand) {
	begin := randomTime(r)
	for i := range s.Webhooks {
		s.Steps = append(s.Steps, Step{At: begin, What: JumpClock, Who: i, N: -2})
	}
	for range 2 + r.IntN(4) {
		s.Steps = append(s.Steps, Step{
			At: begin + time.Duration(r.IntN(4000))*time.Millisecond, What: Delete, Cell: r.IntN(s.Workers), Who: r.IntN(16), For: time.Second,
			Stuck: time.Duration(r.Int64N(int64(RequestLimit))),
		})
	}
}

// drawTwoLeaders adds a cell whose leader sees no events and has not noticed yet that another replica leads.
func drawTwoLeaders(s *Scenario, r *rand.Rand) {
	begin, cell := randomTime(r), r.IntN(s.Workers)
	s.AggregatorsPerCell = 2
	s.Steps = append(s.Steps, Step{At: begin, What: StallWatches, Cell: s.Cores + cell, Who: s.Webhooks + 2*cell + r.IntN(2), For: 15 * time.Second})
	for i := range 3 + r.IntN(5) {
		s.Steps = append(s.Steps, Step{
			At: begin + time.Duration(i*700+r.IntN(700))*time.Millisecond, What: []StepKind{Delete, CreatePod, DeleteLease}[r.IntN(3)], Cell: cell, Who: r.IntN(16),
		})
	}
}

func drawFault(s *Scenario, r *rand.Rand) {
	kinds := []StepKind{
		KillWebhook, PauseWebhook, KillAggregator, KillAggregator, PauseAggregator, PauseAggregator, KillGenerator, CutLink, CutLink,
		DeleteLease, StallWatches, StallWatches, StallWatches, CompactHistory, RestartCluster, RestoreWorker, JumpClock, JumpClock,
	}
	s.Steps = append(s.Steps, Step{
		At: randomTime(r), What: kinds[r.IntN(len(kinds))], Cell: r.IntN(s.Workers + s.Cores), Core: r.IntN(s.Cores), Who: r.IntN(16), N: r.IntN(5) - 2,
		For: time.Duration(100+r.IntN(20000)) * time.Millisecond,
	})
}

// drawCoreRestore adds the restore of a core in the middle of removals.
func drawCoreRestore(s *Scenario, r *rand.Rand) {
	begin, core := randomTime(r), r.IntN(s.Cores)
	s.Steps = append(s.Steps, Step{At: begin + 4*time.Second, What: RestoreCore, Core: core, N: r.IntN(60)})
	for range 2 + r.IntN(8) {
		s.Steps = append(s.Steps, Step{
			At: begin + time.Duration(r.IntN(8000))*time.Millisecond, What: []StepKind{Delete, Delete, Evict}[r.IntN(3)],
			Cell: r.IntN(s.Workers), Who: r.IntN(16), For: time.Second, Stuck: time.Duration(r.IntN(2)) * time.Duration(r.Int64N(int64(RequestLimit))),
		})
	}
}

// drawSource adds changes and losses of the Deployment.
func drawSource(s *Scenario, r *rand.Rand) {
	for range r.IntN(4) {
		kinds := []StepKind{DeleteSource, CreateSource, CreateSource, LoseSource, LoseSource, LoseProtector}
		s.Steps = append(s.Steps, Step{At: randomTime(r), What: kinds[r.IntN(len(kinds))]})
	}
}

// drawProtectorLosses adds protectors that vanish in the middle of removals, or are deleted on purpose, with watches stalled or not.
func drawProtectorLosses(s *Scenario, r *rand.Rand) {
	s.Kept = true
	begin, core := randomTime(r), r.IntN(s.Cores)
	what := []StepKind{LoseOne, LoseOne, LoseOne, DeleteProtector}[r.IntN(4)]
	s.Steps = append(s.Steps, Step{At: begin + 4*time.Second, What: what, Core: core, Who: r.IntN(16)})
	if r.IntN(3) == 0 { // and no watch shows its end
		s.Steps = append(s.Steps, Step{At: begin + 2*time.Second, What: StallWatches, Cell: core, Who: r.IntN(16), For: 4 * time.Second},
			Step{At: begin + 5*time.Second, What: CompactHistory, Cell: core}, Step{At: begin + 5*time.Second, What: RestartCluster, Cell: core})
	}
	if r.IntN(3) == 0 {
		s.Steps = append(s.Steps, Step{At: begin + time.Duration(r.IntN(10000))*time.Millisecond, What: CreateProtector, Core: core})
	}
	if r.IntN(4) == 0 {
		s.Steps = append(s.Steps, Step{
			At: begin + time.Duration(r.IntN(8000))*time.Millisecond, What: KillGenerator, Who: core, For: time.Duration(r.IntN(5000)) * time.Millisecond,
		})
	}
	for range 2 + r.IntN(8) {
		s.Steps = append(s.Steps, Step{
			At: begin + time.Duration(r.IntN(10000))*time.Millisecond, What: []StepKind{Delete, Delete, Evict}[r.IntN(3)],
			Cell: r.IntN(s.Workers), Who: r.IntN(16), For: time.Second, Stuck: time.Duration(r.IntN(2)) * time.Duration(r.Int64N(int64(RequestLimit))),
		})
	}
}
