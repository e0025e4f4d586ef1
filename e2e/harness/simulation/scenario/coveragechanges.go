package scenario

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// drawCoverageChanges adds, in a tenth of the seeds, users who change what a protector covers, by its selector and minReadySeconds, in the
// middle of bursts whose requests hang.
func drawCoverageChanges(s *Scenario, r *rand.Rand) {
	if r.IntN(10) == 0 {
		addCoverageChanges(s, r)
	}
}

// DrawCoverageChanges is Draw with such changes in every seed.
func DrawCoverageChanges(seed uint64) Scenario {
	s := Draw(seed)
	addCoverageChanges(&s, newRand(seed, 0x776964656e21))
	slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return s
}

func addCoverageChanges(s *Scenario, r *rand.Rand) {
	core, who := r.IntN(s.Cores), r.IntN(16)
	begin := time.Duration(r.Int64N(int64(StormTime / 2)))
	for range 1 + r.IntN(2) {
		// Pods of a tier that is not covered at first.
		for range 2 + r.IntN(3) {
			s.Steps = append(s.Steps, Step{
				At: begin + time.Duration(r.IntN(1000))*time.Millisecond, What: Relabel, Cell: r.IntN(s.Workers), Who: r.IntN(16), N: 1,
			})
		}
		s.Steps = append(s.Steps, Step{At: begin, What: Widen, Core: core, Who: who, N: r.IntN(len(Coverages()))})
		change := begin + time.Duration(4000+r.IntN(4000))*time.Millisecond
		for i := range 6 + r.IntN(16) {
			step := Step{
				At: change + time.Duration(r.IntN(7000)-2500)*time.Millisecond, What: []StepKind{Delete, Delete, Delete, Evict}[r.IntN(4)],
				Cell: r.IntN(s.Workers), Who: r.IntN(16), For: time.Second,
			}
			if i%2 == 0 {
				step.Stuck = time.Duration(r.Int64N(int64(RequestLimit)))
			}
			s.Steps = append(s.Steps, step)
		}
		s.Steps = append(s.Steps, Step{At: change, What: Widen, Core: core, Who: who, N: r.IntN(len(Coverages()))})
		begin = change + time.Duration(r.IntN(12000))*time.Millisecond
	}
	if r.IntN(3) == 0 {
		s.Steps = append(s.Steps, Step{At: begin, What: KillAggregator, Who: r.IntN(16), For: time.Duration(100+r.IntN(3000)) * time.Millisecond})
	}
}

// changesCoverage reports whether the coverage of a protector changes, and with it minReadySeconds.
func (s Scenario) changesCoverage() bool {
	return slices.ContainsFunc(s.Steps, func(step Step) bool { return step.What == Widen })
}

// Coverages returns what a protector can cover.
func Coverages() []v1alpha1.PodProtectorSpec {
	var all []v1alpha1.PodProtectorSpec
	for _, labels := range []map[string]string{{"app": "x"}, {"tier": "x"}, {"app": "y"}, {"app": "x", "tier": "x"}} {
		for _, minReady := range []int32{0, 0, 3} {
			all = append(all, v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{MatchLabels: labels}, MinReadySeconds: minReady})
		}
	}
	return all
}
