package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// freezeAggregator stops an aggregator as SIGSTOP does, for longer than its Lease and, at times, than its watches. The package documentation states
// which parts are an approximation.
func (f *processFaults) freezeAggregator(s Step) {
	p, ok := pick(f.processes.aggregators, s.Who)
	if !ok || p.pauseState.hasEnded() {
		return
	}
	p.pauseState.set(true, false)
	p.forEachLink((*apiserver.Link).Freeze)
	f.env.judge.recordStall(p.judged, s.For)
	f.env.runAfter(s.For, p.resume)
}

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
