package simulation

import "time"

// processFaults kill, stop and pause processes, hold their connections and set their clocks.
type processFaults struct {
	env       *environment
	processes *processes
}

func (f *processFaults) addSteps(steps stepTable) {
	ps := f.processes
	steps.add(f.stepClock, StepWebhookClock, StepAggregatorClock)
	steps.addNumbered(f.runSecondGenerator, SecondGenerator)
	fault := func(do func(Step), kinds ...StepKind) { steps.addFault(f.env.judge, do, kinds...) }
	fault(func(s Step) { f.replaceProcess(&ps.webhookProcesses, s) }, KillWebhook)
	fault(func(s Step) { f.replaceProcess(&ps.aggregators, s) }, KillAggregator)
	fault(func(s Step) { f.replaceProcess(&ps.generators, s) }, KillGenerator)
	fault(func(s Step) { f.replaceProcess(&ps.topologies, s) }, KillTopology)
	fault(f.restartShards, StopAggregator)
	fault(func(s Step) { f.pauseProcess(ps.webhookProcesses, s) }, PauseWebhook)
	fault(func(s Step) { f.pauseProcess(ps.aggregators, s) }, PauseAggregator)
	fault(func(s Step) { f.pauseProcess(ps.generators, s) }, PauseGenerator)
	fault(f.freezeAggregator, FreezeAggregator)
	fault(f.cutConnection, CutLink, StallWatches)
	fault(f.stallCell, StallCell)
	fault(f.jumpClock, JumpClock)
}

// replaceProcess kills a process and restarts it after a while.
func (f *processFaults) replaceProcess(all *[]*process, s Step) {
	old, ok := pick(*all, s.Who)
	if !ok || old.pauseState.hasEnded() || old.isStopping.Load() {
		return
	}
	old.kill()
	f.env.runAfter(s.For, func() {
		f.processes.replace(all, old, old.startAgain())
	})
}

func (f *processFaults) pauseProcess(all []*process, s Step) {
	p, ok := pick(all, s.Who)
	if !ok {
		return
	}
	p.pause()
	f.env.judge.recordStall(p.judged, s.For)
	f.env.runAfter(s.For, p.resume)
}

// cutConnection holds the connection of one process to one cluster, or only the watches of that connection.
func (f *processFaults) cutConnection(s Step) {
	p, ok := pick(f.processes.allProcesses(), s.Who)
	if !ok {
		return
	}
	f.env.judge.recordStall(p.judged, s.For)
	for _, link := range p.linksTo(f.env.clusterOf(s).name) {
		if s.What == StallWatches {
			link.HoldWatches()
		} else {
			link.Hold()
		}
		f.env.runAfter(s.For, link.Heal)
	}
}

// stallCell holds what the aggregators of a cell watch.
func (f *processFaults) stallCell(s Step) {
	for _, p := range f.processes.aggregators {
		if link := p.cells[f.env.cell(s).name]; !p.pauseState.hasEnded() {
			link.HoldWatches()
			f.env.runAfter(s.For, link.Heal)
		}
	}
}

// jumpClock sets the clock of a process. Processes whose clocks are far off would count pods with minReadySeconds differently from the judge.
func (f *processFaults) jumpClock(s Step) {
	jump := time.Duration(s.N) * time.Second
	if !f.env.scenario.agesMatter() {
		jump *= 60
	}
	if p, ok := pick(f.processes.allProcesses(), s.Who); ok {
		if p.isGenerator() { // the brake compares clocks, which may differ by little against its window
			jump = time.Duration(s.N) * maxClockSkew / 2
		}
		p.skew.Store(int64(jump))
	}
}
