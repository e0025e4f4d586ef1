package simulation

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// injectFault injects a fault for a while.
func (sim *simulator) injectFault(s Step) {
	sim.judge.recordFault(s)
	switch s.What {
	case KillWebhook:
		sim.replaceProcess(&sim.webhookProcesses, s, func(old *process) *process { return sim.startWebhook(old.name) })
	case KillAggregator:
		sim.replaceProcess(&sim.aggregators, s, sim.restartAggregator)
	case KillGenerator:
		sim.replaceProcess(&sim.generators, s, func(old *process) *process {
			return sim.startGenerator(old.name, sim.cores[slices.Index(sim.generators, old)].name)
		})
	case KillTopology:
		sim.replaceProcess(&sim.topologies, s, func(old *process) *process {
			return sim.startTopology(old.name, sim.cores[slices.Index(sim.topologies, old)].name)
		})
	case StopAggregator:
		sim.restartShards(s)
	case PauseWebhook:
		sim.pauseProcess(sim.webhookProcesses, s)
	case PauseAggregator:
		sim.pauseProcess(sim.aggregators, s)
	case PauseGenerator:
		sim.pauseProcess(sim.generators, s)
	case CutLink, StallWatches:
		sim.cutConnection(s)
	case StallCell:
		for _, p := range sim.aggregators {
			if link := p.cells[sim.cell(s).name]; !p.pauseState.hasEnded() {
				link.HoldWatches()
				sim.runAfter(s.For, link.Heal)
			}
		}
	case DeleteLease:
		name := types.NamespacedName{Namespace: leaseNamespace, Name: "aggregator-" + sim.cell(s).name}
		_, _ = sim.cores[s.Core%len(sim.cores)].store.Delete("leases", name, "", "user")
	case CompactHistory:
		sim.clusterOf(s).store.Compact()
	case RestartCluster:
		sim.clusterOf(s).store.Restart()
	case RestoreWorker:
		sim.restoreWorker(sim.cell(s), s)
	case RestoreCore:
		sim.restoreCore(sim.cores[s.Core%len(sim.cores)], s)
	case JumpClock:
		// Processes whose clocks are far off would count pods with minReadySeconds differently from the judge.
		jump := time.Duration(s.N) * time.Second
		if !sim.scenario.agesMatter() {
			jump *= 60
		}
		if p, ok := pick(sim.allProcesses(), s.Who); ok {
			if p.isGenerator() { // the brake compares clocks, which may differ by little against its window
				jump = time.Duration(s.N) * maxClockSkew / 2
			}
			p.skew.Store(int64(jump))
		}
	}
}

// restoreWorker takes a worker back by a few changes. Its pods return to their state at that version, and later changes are lost.
func (sim *simulator) restoreWorker(c *clusterState, s Step) {
	version := c.store.Version()
	version -= min(version-c.simulator.judge.history.cells[c.name].countedVersion, uint64(s.Who))
	c.store.Restore(version, version, func() { sim.judge.recordCellRestore(c.name, version) })
}

// coreVersionBump is the increase of the versions after a core was restored, as etcd advises.
const coreVersionBump = 1_000_000_000

// restoreCore takes a core back by a few changes. As etcd advises, its versions continue above those that it had given out.
func (sim *simulator) restoreCore(c *clusterState, s Step) {
	last := c.store.Version()
	version := last - min(last-c.countedVersion, uint64(s.N))
	shown := map[string]uint64{}
	for _, p := range sim.allProcesses() {
		shown[p.name] = p.seenVersions()[c.name]
	}
	c.store.Restore(version, last+coreVersionBump, func() { sim.judge.recordLostDecisions(c.name, version, shown) })
	c.restoredVersion = last + coreVersionBump
	leases, _ := c.store.List("leases", "")
	sim.judge.recordRestoredShards(c.name, leases)
	sim.judge.recordRestoredCellObjects(c)
	sim.judge.recordCoreRestore(c, version, last+coreVersionBump)
}

func (sim *simulator) clusterOf(s Step) *clusterState {
	all := append(slices.Clone(sim.cores), sim.workers...)
	return all[s.Cell%len(all)]
}

// replaceProcess kills a process and restarts it after a while.
func (sim *simulator) replaceProcess(all *[]*process, s Step, start func(old *process) *process) {
	old, ok := pick(*all, s.Who)
	if !ok || old.pauseState.hasEnded() || old.isStopping.Load() {
		return
	}
	old.kill()
	sim.runAfter(s.For, func() {
		replacement := start(old)
		sim.mu.Lock()
		defer sim.mu.Unlock()
		(*all)[slices.Index(*all, old)] = replacement
		sim.killed = append(sim.killed, old)
	})
}

func (sim *simulator) restartAggregator(old *process) *process {
	for _, core := range sim.cores {
		for _, worker := range sim.workers {
			for i := range sim.scenario.AggregatorsPerCell {
				if name := aggregatorName(core.name, worker.name, i); name == old.name {
					return sim.startAggregator(name, core.name, worker.name)
				}
			}
		}
	}
	panic("simulation: no such aggregator: " + old.name)
}

func (sim *simulator) pauseProcess(all []*process, s Step) {
	p, ok := pick(all, s.Who)
	if !ok {
		return
	}
	p.pause()
	sim.judge.recordStall(p, s.For)
	sim.runAfter(s.For, p.resume)
}

// cutConnection holds the connection of one process to one cluster, or only the watches of that connection.
func (sim *simulator) cutConnection(s Step) {
	p, ok := pick(sim.allProcesses(), s.Who)
	if !ok {
		return
	}
	name := sim.clusterOf(s).name
	link := p.cores[name]
	if link == nil {
		link = p.cells[name]
	}
	sim.judge.recordStall(p, s.For)
	if s.What == StallWatches {
		link.HoldWatches()
	} else {
		link.Hold()
	}
	sim.runAfter(s.For, link.Heal)
}
