package simulation

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// fault injects a fault for a while.
func (w *world) fault(s Step) {
	w.judge.disturbs(s)
	switch s.What {
	case KillWebhook:
		w.replace(&w.hooks, s, func(old *process) *process { return w.startWebhook(old.name) })
	case KillAggregator:
		w.replace(&w.aggregators, s, w.restartAggregator)
	case KillGenerator:
		w.replace(&w.generators, s, func(old *process) *process {
			return w.startGenerator(old.name, w.cores[slices.Index(w.generators, old)].name)
		})
	case KillTopology:
		w.replace(&w.topologies, s, func(old *process) *process {
			return w.startTopology(old.name, w.cores[slices.Index(w.topologies, old)].name)
		})
	case StopAggregator:
		w.stopAndReturn(s)
	case PauseWebhook:
		w.hold(w.hooks, s)
	case PauseAggregator:
		w.hold(w.aggregators, s)
	case PauseGenerator:
		w.hold(w.generators, s)
	case CutLink, StallWatches:
		w.cut(s)
	case StallCell:
		for _, p := range w.aggregators {
			if link := p.cells[w.cell(s).name]; !p.paused.isDead() {
				link.HoldWatches()
				w.later(s.For, link.Heal)
			}
		}
	case DeleteLease:
		name := types.NamespacedName{Namespace: leaseNamespace, Name: "aggregator-" + w.cell(s).name}
		_, _ = w.cores[s.Core%len(w.cores)].store.Delete("leases", name, "", "user")
	case CompactHistory:
		w.cluster(s).store.Compact()
	case RestartCluster:
		w.cluster(s).store.Restart()
	case RestoreWorker:
		w.restore(w.cell(s), s)
	case RestoreCore:
		w.restoreCore(w.cores[s.Core%len(w.cores)], s)
	case JumpClock:
		// Processes whose clocks are far off would count pods with minReadySeconds differently from the judge.
		jump := time.Duration(s.N) * time.Second
		if !w.scenario.agesMatter() {
			jump *= 60
		}
		if p, ok := pick(w.everybody(), s.Who); ok {
			if p.isGenerator() { // the brake compares clocks, which may differ by little against its window
				jump = time.Duration(s.N) * maxClockSkew / 2
			}
			p.skew.Store(int64(jump))
		}
	}
}

// restore takes a worker back by a few changes. Its pods return to their state at that version, and later changes are lost.
func (w *world) restore(c *clusterState, s Step) {
	version := c.store.Version()
	version -= min(version-c.world.judge.cells[c.name].begin, uint64(s.Who))
	c.store.Restore(version, version, func() { w.judge.restored(c.name, version) })
}

// bumped is the increase of the versions after a core was restored, as etcd advises.
const bumped = 1_000_000_000

// restoreCore takes a core back by a few changes. As etcd advises, its versions continue above those that it had given out.
func (w *world) restoreCore(c *clusterState, s Step) {
	last := c.store.Version()
	version := last - min(last-c.begin, uint64(s.N))
	shown := map[string]uint64{}
	for _, p := range w.everybody() {
		shown[p.name] = p.knowledge()[c.name]
	}
	c.store.Restore(version, last+bumped, func() { w.judge.coreWillBeOld(c.name, version, shown) })
	c.restored = last + bumped
	leases, _ := c.store.List("leases", "")
	w.judge.sharesAreOld(c.name, leases)
	w.judge.cellsAreOld(c)
	w.judge.coreIsOld(c, version, last+bumped)
}

func (w *world) cluster(s Step) *clusterState {
	all := append(slices.Clone(w.cores), w.workers...)
	return all[s.Cell%len(all)]
}

// replace kills a process and restarts it after a while.
func (w *world) replace(all *[]*process, s Step, start func(old *process) *process) {
	old, ok := pick(*all, s.Who)
	if !ok || old.paused.isDead() || old.leaves.Load() {
		return
	}
	old.kill()
	w.later(s.For, func() {
		fresh := start(old)
		w.mu.Lock()
		defer w.mu.Unlock()
		(*all)[slices.Index(*all, old)] = fresh
		w.buried = append(w.buried, old)
	})
}

func (w *world) restartAggregator(old *process) *process {
	for _, core := range w.cores {
		for _, worker := range w.workers {
			for i := range w.scenario.AggregatorsPerCell {
				if name := aggregatorName(core.name, worker.name, i); name == old.name {
					return w.startAggregator(name, core.name, worker.name)
				}
			}
		}
	}
	panic("simulation: no such aggregator: " + old.name)
}

func (w *world) hold(all []*process, s Step) {
	p, ok := pick(all, s.Who)
	if !ok {
		return
	}
	p.hold()
	w.judge.stalls(p, s.For)
	w.later(s.For, p.proceed)
}

// cut holds the connection of one process to one cluster, or only the watches of that connection.
func (w *world) cut(s Step) {
	p, ok := pick(w.everybody(), s.Who)
	if !ok {
		return
	}
	name := w.cluster(s).name
	link := p.cores[name]
	if link == nil {
		link = p.cells[name]
	}
	w.judge.stalls(p, s.For)
	if s.What == StallWatches {
		link.HoldWatches()
	} else {
		link.Hold()
	}
	w.later(s.For, link.Heal)
}
