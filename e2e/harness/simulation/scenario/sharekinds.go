package scenario

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Three kinds of scenarios with shares. Each has its own random stream, so that everything else of a seed stays the same. The streams were chosen
// so that they change no seed that tests, mutants or docs name.
const (
	sharedForceStream      = 0x73666f72636503
	sharedDomainLossStream = 0x736c6f737303
	secondCoreStream       = 0x73636f726503
)

// drawForceWithShares adds break-glass removals: in bursts, and some while their cell is cut off the core and about to enter.
func drawForceWithShares(s *Scenario, r *rand.Rand) {
	if r.IntN(3) > 0 {
		return
	}
	drawForceBursts(s, r)
	for range r.IntN(3) {
		drawForceOnEntry(s, r)
	}
}

// drawForceOnEntry adds break-glass removals in a cell without a share whose webhooks are cut off the core. They become pending charges. The cell enters
// meanwhile, and its share decides on other removals before they have taken effect.
func drawForceOnEntry(s *Scenario, r *rand.Rand) {
	const left, cut = 10 * time.Second, 5 * time.Second
	begin, cell, who := left+time.Duration(r.Int64N(int64(StormTime-left-2*cut))), r.IntN(s.Workers), r.IntN(2)
	after := func(least, width time.Duration) time.Duration {
		return begin + least + time.Duration(r.Int64N(int64(width)))
	}
	s.Steps = append(s.Steps,
		Step{At: begin - left, What: SetCoreOutage, Who: who}, Step{At: after(0, cut/2), What: SetCoreOutage, Who: who, N: 1})
	for i := range s.Webhooks {
		s.Steps = append(s.Steps, Step{At: begin, What: CutLink, Who: cell*s.Webhooks + i, For: cut})
	}
	for range 1 + r.IntN(2) {
		s.Steps = append(s.Steps, Step{
			At: after(0, time.Second/2), What: Force, Cell: cell, Who: r.IntN(16), For: time.Second, Stuck: time.Duration(3000+r.IntN(4000)) * time.Millisecond,
		})
	}
	for range 4 + r.IntN(6) {
		s.Steps = append(s.Steps, Step{At: after(cut, time.Second), What: Delete, Cell: cell, Who: r.IntN(16), For: time.Second})
	}
}

// drawSecondCore adds another core, with a protector of a name that the first core has too. Faults and changes are in either core.
func drawSecondCore(s *Scenario, r *rand.Rand) {
	if r.IntN(5) > 0 {
		return
	}
	s.Cores = 2
	twin := s.Protectors[r.IntN(len(s.Protectors))]
	twin.Core, twin.Label, twin.Floor, twin.CoreOutage = 1, []string{"app", "tier"}[r.IntN(2)], r.IntN(s.Pods), v1alpha1.CoreOutageLocalShare
	s.Protectors = append(s.Protectors, twin)
	for i := range s.Steps {
		s.Steps[i].Core = r.IntN(s.Cores)
	}
}

// drawDomainLossWithShares adds a protector that tolerates the loss of a cell. It gets no shares, although it asks for them.
func drawDomainLossWithShares(s *Scenario, r *rand.Rand) {
	if r.IntN(5) > 0 {
		return
	}
	s.Protectors = append(s.Protectors, ProtectorPlan{
		Name: fmt.Sprintf("p%d", len(s.Protectors)), Label: []string{"app", "tier"}[r.IntN(2)], Floor: r.IntN(s.Pods*(s.Workers-1)/s.Workers + 1),
		Compact: r.IntN(5), RateMillis: r.IntN(3) * 500, MindsLoss: true, CoreOutage: v1alpha1.CoreOutageLocalShare,
	})
	drawBurst(s, r)
}
