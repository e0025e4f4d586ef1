package scenario

import (
	"math/rand/v2"
	"slices"
	"time"
)

// In a sixth of the seeds, the topology controller runs in each core. Users delete Cells and recreate them. All aggregators of a cell are
// paused for so long that protectors discount its pods, if the Cells ask for that. judge/topology.go states the rules.

// topologyStream is the random stream of these scenarios. It was chosen so that it changes no seed that tests, mutants or docs name.
const topologyStream = 0x746f706f00f1

// TopologyPlan states whether the topology controller runs, and how the Cells are configured then.
type TopologyPlan struct {
	Runs bool
	// Discounts sets whenStale: Discount.
	Discounts bool
}

// StaleAfter is that of the Cells: two heartbeats, plus the network delay of one.
const StaleAfter = 25 * time.Second

func drawTopology(s *Scenario, r *rand.Rand) {
	if r.IntN(6) > 0 {
		return
	}
	s.Topology = TopologyPlan{Runs: true, Discounts: r.IntN(2) == 0}
	for range 1 + r.IntN(2) {
		begin, cell, core := randomTime(r), r.IntN(s.Workers), r.IntN(s.Cores)
		if length := time.Duration(30+r.IntN(20)) * time.Second; s.Topology.Discounts && r.IntN(2) == 0 {
			for i := range s.AggregatorsPerCell {
				s.Steps = append(s.Steps, Step{At: begin, What: PauseAggregator, Who: (core*s.Workers+cell)*s.AggregatorsPerCell + i, For: length})
			}
			drawRemovalWave(s, r, begin+length-8*time.Second, 16*time.Second)
			continue
		}
		s.Steps = append(s.Steps, Step{At: begin, What: DeleteCell, Cell: cell, Core: core})
		again := begin + time.Duration(1+r.IntN(40))*time.Second
		s.Steps = append(s.Steps, Step{At: again, What: CreateCell, Cell: cell, Core: core})
		drawRemovalWave(s, r, begin-2*time.Second, 15*time.Second)
		drawRemovalWave(s, r, again, 15*time.Second)
		if r.IntN(4) == 0 {
			s.Steps = append(s.Steps, Step{At: begin + time.Duration(r.IntN(10000))*time.Millisecond, What: KillTopology, Who: core, For: 5 * time.Second})
		}
	}
}

// drawRemovalWave adds removals and new pods in all cells within a time.
func drawRemovalWave(s *Scenario, r *rand.Rand, begin, width time.Duration) {
	for range 4 + r.IntN(10) {
		step := Step{
			At: max(0, begin+time.Duration(r.Int64N(int64(width)))), What: []StepKind{Delete, Delete, Evict, CreatePod, Die}[r.IntN(5)], Cell: r.IntN(s.Workers),
			Who: r.IntN(16), For: time.Second, DeniedLater: r.IntN(8) == 0,
		}
		step.Stuck = randomHang(r, 4)
		s.Steps = append(s.Steps, step)
	}
}

// withoutTopology returns the scenario with Cells that stay.
func (s Scenario) withoutTopology() Scenario {
	s.Topology = TopologyPlan{}
	s.Steps = slices.DeleteFunc(slices.Clone(s.Steps), func(step Step) bool {
		return step.What == DeleteCell || step.What == CreateCell || step.What == KillTopology
	})
	return s
}

// DrawShared returns a scenario of a seed in which shards divide the cells, and stop and return.
func DrawShared(seed uint64) Scenario {
	s := Draw(seed).withoutWorkloads().withoutTopology()
	r := newRand(seed, 0x736c6f74)
	s.Shared, s.AggregatorsPerCell, s.Spaces = true, 2+r.IntN(3), 2+r.IntN(4)
	s.Workers, s.Pods = min(s.Workers, 2), max(s.Pods, 2*s.Spaces)
	for i := range s.Steps {
		s.Steps[i].Cell %= s.Workers + s.Cores
	}
	each := s.Pods / s.Spaces
	for n := range s.Spaces {
		plan := s.Protectors[n%len(s.Protectors)]
		plan.Name, plan.Space, plan.Floor = plan.Name+string(rune('a'+n)), n, r.IntN(each+1)
		s.Protectors = append(s.Protectors, plan)
	}
	s.Protectors = s.Protectors[len(s.Protectors)-s.Spaces:]
	for range 2 + r.IntN(5) {
		kinds := []StepKind{KillAggregator, PauseAggregator, PauseAggregator, StopAggregator, StopAggregator, CutLink, StallWatches, JumpClock}
		step := Step{
			At: randomTime(r), What: kinds[r.IntN(len(kinds))], Cell: r.IntN(s.Workers + s.Cores), Who: r.IntN(64), N: r.IntN(5) - 2,
			For: time.Duration(100+r.IntN(30000)) * time.Millisecond,
		}
		if step.What == CutLink || step.What == StallWatches { // those of an aggregator
			step.Who = s.Webhooks + step.Who%(s.AggregatorsPerCell*s.Workers*s.Cores)
		}
		s.Steps = append(s.Steps, step)
	}
	for range 1 + r.IntN(3) {
		drawBurst(&s, r)
	}
	slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return s
}
