package play

import (
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
)

// processFaults kill, stop and pause processes, hold their connections and set their clocks.
type processFaults struct {
	env       *environment
	processes *processes
}

func (f *processFaults) addSteps(steps stepTable) {
	ps := f.processes
	steps.add(f.stepClock, scenario.StepWebhookClock, scenario.StepAggregatorClock)
	steps.addNumbered(f.runSecondGenerator, scenario.SecondGenerator)
	fault := func(do func(scenario.Step), kinds ...scenario.StepKind) { steps.addFault(f.env.judge, do, kinds...) }
	fault(func(s scenario.Step) { f.replaceProcess(&ps.webhookProcesses, s) }, scenario.KillWebhook)
	fault(func(s scenario.Step) { f.replaceProcess(&ps.aggregators, s) }, scenario.KillAggregator)
	fault(func(s scenario.Step) { f.replaceProcess(&ps.generators, s) }, scenario.KillGenerator)
	fault(func(s scenario.Step) { f.replaceProcess(&ps.topologies, s) }, scenario.KillTopology)
	fault(f.restartShards, scenario.StopAggregator)
	fault(func(s scenario.Step) { f.pauseProcess(ps.webhookProcesses, s) }, scenario.PauseWebhook)
	fault(func(s scenario.Step) { f.pauseProcess(ps.aggregators, s) }, scenario.PauseAggregator)
	fault(func(s scenario.Step) { f.pauseProcess(ps.generators, s) }, scenario.PauseGenerator)
	fault(f.freezeAggregator, scenario.FreezeAggregator)
	fault(f.cutConnection, scenario.CutLink, scenario.StallWatches)
	fault(f.stallCell, scenario.StallCell)
	fault(f.jumpClock, scenario.JumpClock)
}

// replaceProcess kills a process and restarts it after a while.
func (f *processFaults) replaceProcess(all *[]*process, s scenario.Step) {
	old, ok := pick(*all, s.Who)
	if !ok || old.pauseState.hasEnded() || old.isStopping.Load() {
		return
	}
	old.kill()
	f.env.runAfter(s.For, func() {
		f.processes.replace(all, old, old.startAgain())
	})
}

func (f *processFaults) pauseProcess(all []*process, s scenario.Step) {
	p, ok := pick(all, s.Who)
	if !ok {
		return
	}
	p.pause()
	f.env.judge.RecordStall(p.judged, s.For)
	f.env.runAfter(s.For, p.resume)
}

// cutConnection holds the connection of one process to one cluster, or only the watches of that connection.
func (f *processFaults) cutConnection(s scenario.Step) {
	p, ok := pick(f.processes.allProcesses(), s.Who)
	if !ok {
		return
	}
	f.env.judge.RecordStall(p.judged, s.For)
	for _, link := range p.linksTo(f.env.clusterOf(s).name) {
		if s.What == scenario.StallWatches {
			link.HoldWatches()
		} else {
			link.Hold()
		}
		f.env.runAfter(s.For, link.Heal)
	}
}

// stallCell holds what the aggregators of a cell watch.
func (f *processFaults) stallCell(s scenario.Step) {
	for _, p := range f.processes.aggregators {
		if link := p.cells[f.env.cell(s).name]; !p.pauseState.hasEnded() {
			link.HoldWatches()
			f.env.runAfter(s.For, link.Heal)
		}
	}
}

// jumpClock sets the clock of a process. Processes whose clocks are far off would count pods with minReadySeconds differently from the judge.
func (f *processFaults) jumpClock(s scenario.Step) {
	jump := time.Duration(s.N) * time.Second
	if !f.env.scenario.AgesMatter() {
		jump *= 60
	}
	if p, ok := pick(f.processes.allProcesses(), s.Who); ok {
		if p.isGenerator() { // the brake compares clocks, which may differ by little against its window
			jump = time.Duration(s.N) * judge.MaxClockSkew / 2
		}
		p.skew.Store(int64(jump))
	}
}

// freezeAggregator stops an aggregator as SIGSTOP does, for longer than its Lease and, at times, than its watches. The package documentation states
// which parts are an approximation.
func (f *processFaults) freezeAggregator(s scenario.Step) {
	p, ok := pick(f.processes.aggregators, s.Who)
	if !ok || p.pauseState.hasEnded() {
		return
	}
	p.pauseState.set(true, false)
	p.forEachLink((*apiserver.Link).Freeze)
	f.env.judge.RecordStall(p.judged, s.For)
	f.env.runAfter(s.For, p.resume)
}

// stepClock sets the clock of a webhook or an aggregator by minutes, independent of how protectors count.
func (f *processFaults) stepClock(s scenario.Step) {
	all := f.processes.webhookProcesses
	if s.What == scenario.StepAggregatorClock {
		all = f.processes.aggregators
	}
	if p, ok := pick(all, s.Who); ok {
		p.skew.Store(int64(time.Duration(s.N) * time.Minute))
	}
}
