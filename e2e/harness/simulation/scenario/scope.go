package scenario

import (
	"math/rand/v2"
	"slices"
	"time"
)

// scopeStream is the random stream of DrawScope.
const scopeStream = 0x73636f7065

// DrawScope returns a scenario of a seed with webhooks of scope Protected: one of Draw, or with shards or shares.
func DrawScope(seed uint64) Scenario {
	r := newRand(seed, scopeStream)
	s := []func(uint64) Scenario{Draw, Draw, DrawShared, DrawShares}[r.IntN(4)](seed)
	s.Scope = ScopePlan{Protected: true, Lag: time.Duration(r.IntN(2)*r.IntN(4500)) * time.Millisecond}
	if !s.IsKept() && r.IntN(2) == 0 { // otherwise a protector that vanishes must be recreated before
		s.Scope.Retention = time.Duration(1+r.IntN(8000)) * time.Millisecond
	}
	if r.IntN(3) == 0 { // the label is late
		s.AggregatorsPerCell = max(s.AggregatorsPerCell, 1+r.IntN(2))
		drawLabelFaults(&s, r, 0)
	}
	for range r.IntN(3) {
		drawLabelLoss(&s, r, []StepKind{RecreateNamespace, RecreateNamespace, RemoveLabel, RestoreWorker}[r.IntN(4)])
	}
	if !s.Shares && !s.Generated && r.IntN(2) == 0 {
		drawProtectorReturns(&s, r)
	}
	slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return s
}

// drawLabelLoss adds a namespace that loses its label in the middle of removals, with faults of the aggregators or without.
func drawLabelLoss(s *Scenario, r *rand.Rand, what StepKind) {
	begin := randomTime(r)
	if what == RestoreWorker && s.Shares {
		s.Steps = slices.DeleteFunc(s.Steps, func(step Step) bool { return step.What == KillWebhook })
	}
	s.Steps = append(s.Steps, Step{
		At: begin, What: what, Cell: r.IntN(s.Workers), Who: r.IntN(60), N: r.IntN(4), For: time.Duration(1+r.IntN(2)*r.IntN(3000)) * time.Millisecond,
	})
	if r.IntN(2) == 0 {
		drawLabelFaults(s, r, max(0, begin-time.Second))
	}
	drawRemovalWave(s, r, begin, 12*time.Second)
}

// drawLabelFaults adds faults of aggregators, or of their connections to workers.
func drawLabelFaults(s *Scenario, r *rand.Rand, begin time.Duration) {
	aggregators := s.AggregatorsPerCell * s.Workers * s.Cores
	for range 1 + r.IntN(3) {
		step := Step{
			At: begin + time.Duration(r.IntN(3000))*time.Millisecond, What: []StepKind{KillAggregator, PauseAggregator, CutLink, StallWatches, DeleteLease}[r.IntN(5)],
			Cell: s.Cores + r.IntN(s.Workers), Who: r.IntN(aggregators), For: time.Duration(100+r.IntN(8000)) * time.Millisecond,
		}
		switch step.What {
		case CutLink, StallWatches:
			step.Who += s.Webhooks
		case DeleteLease:
			step.Cell -= s.Cores
		}
		s.Steps = append(s.Steps, step)
	}
}

// drawProtectorReturns deletes protectors and creates them again, before and after the label is released.
func drawProtectorReturns(s *Scenario, r *rand.Rand) {
	begin := randomTime(r) / 2
	for range 1 + r.IntN(3) {
		core := r.IntN(s.Cores)
		s.Steps = append(s.Steps, Step{At: begin, What: DeleteProtector, Core: core, Who: r.IntN(16)})
		begin += time.Duration(r.IntN(2)*r.IntN(12000)+r.IntN(1000)) * time.Millisecond
		s.Steps = append(s.Steps, Step{At: begin, What: CreateProtector, Core: core})
		drawRemovalWave(s, r, begin, 10*time.Second)
	}
}

// In the scenarios of DrawScope, the API servers of the workers have removals reviewed only in namespaces with the label that the aggregators set
// (webhook.scope: Protected). They know namespaces from caches that lag. Clients remove the label where no policy prevents it, namespaces are deleted
// and recreated, and workers are restored to before the label. judge/scope.go says which removals may go without a review.

// ScopePlan states whether webhooks have the scope Protected.
type ScopePlan struct {
	Protected bool
	// Lag is the maximum delay of the namespace caches of API servers. Aggregators rely on less than five seconds.
	Lag time.Duration
	// Retention is how long the label stays after the last protector; 0 is the default.
	Retention time.Duration
}
