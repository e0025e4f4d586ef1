package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// DrawShares returns a scenario of a seed in which cells decide on their shares.
func DrawShares(seed uint64) Scenario {
	r := newRand(seed, 0x7368617265)
	s := Scenario{
		Seed: seed, Cores: 1, Workers: 2 + r.IntN(2), Webhooks: 1 + r.IntN(2), AggregatorsPerCell: 1 + r.IntN(2), Pods: 4 + r.IntN(12), Shares: true,
		Storm: drawStorm(r),
	}
	for i := range 1 + r.IntN(5)/4 {
		s.Protectors = append(s.Protectors, ProtectorPlan{
			Name: fmt.Sprintf("p%d", i), Label: []string{"app", "tier"}[i], Floor: r.IntN(s.Pods), Compact: r.IntN(5), RateMillis: r.IntN(3) * 500,
			CoreOutage: []v1alpha1.CoreOutage{v1alpha1.CoreOutageLocalShare, v1alpha1.CoreOutageDeny}[i*r.IntN(2)],
		})
	}
	for range 2 + r.IntN(4) {
		drawBurst(&s, r)
	}
	if r.IntN(3) > 0 {
		drawOutage(&s, r)
	}
	s.drawSteps(r, r.IntN(6), CreatePod, CreatePod, BecomeReady, BecomeReady, Rollout, SetFloor)
	if r.IntN(3) == 0 {
		s.drawSteps(r, 1+r.IntN(2), Die, BecomeUnready)
	}
	s.drawSteps(r, r.IntN(6), KillWebhook, PauseWebhook, KillAggregator, KillAggregator, PauseAggregator, PauseAggregator, CutLink, CutLink, DeleteLease,
		StallWatches, StallWatches, StallWatches, CompactHistory, RestartCluster, JumpClock)
	if r.IntN(3) == 0 {
		drawEntries(&s, r)
	}
	if r.IntN(4) == 0 {
		s.drawSteps(r, 1+r.IntN(2), DeleteShare)
	}
	if r.IntN(4) == 0 {
		drawShareRestores(&s, r)
	}
	if r.IntN(5) == 0 { // keepers recreate a protector that was lost; a webhook that starts meanwhile cannot know it
		s.Kept = true
		begin := randomTime(r)
		s.Steps = append(s.Steps, Step{At: begin + 2*time.Second, What: LoseOne, Who: r.IntN(2)})
		s.Steps = slices.DeleteFunc(s.Steps, func(step Step) bool { return step.What == KillWebhook })
		drawRemovalWave(&s, r, begin, 8*time.Second)
	}
	s.HadShares = r.IntN(2) == 0
	drawSharedFloors(&s, newRand(seed, sharedFloorStream))
	drawDomainLossWithShares(&s, newRand(seed, sharedDomainLossStream))
	drawForceWithShares(&s, newRand(seed, sharedForceStream))
	drawSecondCore(&s, newRand(seed, secondCoreStream))
	slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return s
}

// sharedFloorStream is the random stream of drawSharedFloors. It was chosen so that it changes no seed that tests, mutants or docs name.
const sharedFloorStream = 0x666c6f6f7202

// drawSharedFloors makes floors percentages, deletes Cells, and lets the other cells not rely on one whose aggregators are silent.
func drawSharedFloors(s *Scenario, r *rand.Rand) {
	percentages, topology := r.IntN(4) == 0, r.IntN(5) == 0
	if percentages {
		for i := range s.Protectors {
			s.Protectors[i].Computed = drawComputedFloor(r, s.Pods)
			s.Protectors[i].Computed.Expected = s.Pods
		}
	}
	if !topology {
		return
	}
	s.Topology = TopologyPlan{Runs: true, Discounts: r.IntN(2) == 0}
	begin, cell, length := randomTime(r), r.IntN(s.Workers), time.Duration(30+r.IntN(20))*time.Second
	if !s.Topology.Discounts {
		s.Steps = append(s.Steps, Step{At: begin, What: DeleteCell, Cell: cell}, Step{At: begin + length - 20*time.Second, What: CreateCell, Cell: cell})
		drawRemovalWave(s, r, begin-2*time.Second, 30*time.Second)
		return
	}
	for i := range s.AggregatorsPerCell {
		s.Steps = append(s.Steps, Step{At: begin, What: PauseAggregator, Who: cell*s.AggregatorsPerCell + i, For: length})
	}
	drawRemovalWave(s, r, begin+length-8*time.Second, 16*time.Second)
}

// drawShareRestores restores the core or the cluster of a cell, with removals before and after. Webhooks are not restarted, since a new one cannot
// know of the restore before an aggregator does.
func drawShareRestores(s *Scenario, r *rand.Rand) {
	begin, cell := randomTime(r), r.IntN(s.Workers)
	if r.IntN(3) > 0 {
		s.Steps = append(s.Steps, Step{At: begin + 4*time.Second, What: RestoreCore, N: r.IntN(80)})
	}
	if r.IntN(3) > 0 {
		s.Steps = append(s.Steps, Step{At: begin + time.Duration(r.IntN(8000))*time.Millisecond, What: RestoreWorker, Cell: cell, Who: r.IntN(60)})
	}
	s.Steps = slices.DeleteFunc(s.Steps, func(step Step) bool { return step.What == KillWebhook })
	drawRemovalWave(s, r, begin, 10*time.Second)
}

// drawEntries lets cells leave and enter while removals are under way that the protector, or the share, has reserved.
func drawEntries(s *Scenario, r *rand.Rand) {
	begin, who := randomTime(r)/2, r.IntN(2)
	for i := range 1 + r.IntN(4) {
		s.Steps = append(s.Steps, Step{At: begin, What: SetCoreOutage, Who: who, N: i})
		drawRemovalWave(s, r, max(0, begin-2*time.Second), 4*time.Second)
		begin += time.Duration(2000+r.IntN(6000)) * time.Millisecond
	}
}

// drawSteps adds n steps of some kinds at random times.
func (s *Scenario) drawSteps(r *rand.Rand, n int, kinds ...StepKind) {
	for range n {
		s.Steps = append(s.Steps, Step{
			At: randomTime(r), What: kinds[r.IntN(len(kinds))], Cell: r.IntN(s.Workers + s.Cores), Who: r.IntN(16), N: r.IntN(s.Pods + 2),
			For: time.Duration(100+r.IntN(20000)) * time.Millisecond,
		})
	}
}

// drawOutage cuts one cell or all cells off the core, one shortly after the other, with removals meanwhile.
func drawOutage(s *Scenario, r *rand.Rand) {
	begin, length := randomTime(r), time.Duration(1+r.IntN(40))*time.Second
	first := r.IntN(s.Workers)
	for i := range []int{1, s.Workers}[r.IntN(2)] {
		s.Steps = append(s.Steps, Step{
			At: begin + time.Duration(r.IntN(500))*time.Millisecond, What: CutCore, Cell: (first + i) % s.Workers, N: r.IntN(4),
			For: length + time.Duration(r.IntN(2000))*time.Millisecond,
		})
	}
	if r.IntN(3) == 0 { // the connection flaps
		for at := begin; at < begin+length; at += time.Duration(200+r.IntN(3000)) * time.Millisecond {
			s.Steps = append(s.Steps, Step{At: at, What: CutCore, Cell: r.IntN(s.Workers), N: r.IntN(4), For: time.Duration(r.IntN(2000)) * time.Millisecond})
		}
	}
	drawRemovalWave(s, r, begin, length)
}
