package simulation

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/controllers/generator"
)

// clusterFaults restart and restore clusters, and delete what they store for our components.
type clusterFaults struct {
	env       *environment
	processes *processes
}

func (f *clusterFaults) addSteps(steps stepTable) {
	fault := func(do func(Step), kind StepKind) { steps.addFault(f.env.judge, do, kind) }
	fault(func(s Step) {
		name := types.NamespacedName{Namespace: leaseNamespace, Name: "aggregator-" + f.env.cell(s).name}
		_, _ = f.env.core(s).store.Delete("leases", name, "", "user")
	}, DeleteLease)
	fault(func(s Step) { f.env.clusterOf(s).store.Compact() }, CompactHistory)
	fault(func(s Step) { f.env.clusterOf(s).store.Restart() }, RestartCluster)
	fault(func(s Step) { f.restoreWorker(f.env.cell(s), s) }, RestoreWorker)
	fault(func(s Step) { f.restoreCore(f.env.core(s), s) }, RestoreCore)
}

// coreVersionBump is the increase of the versions after a core was restored, as etcd advises.
const coreVersionBump = 1_000_000_000

// coreRestoreTime is how long the API server of a core is stopped for a restore. The generator relies on more than generator.MaxReadAge
// from its decision to the arrival of its write. A write that waits for a hold of its connection or process still arrives later.
const coreRestoreTime = generator.MaxReadAge + time.Second

// restoreWorker takes a worker back by a few changes. Its pods return to their state at that version, and later changes are lost. With shares
// it is restored like a core.
func (f *clusterFaults) restoreWorker(c *clusterState, s Step) {
	version := c.store.Version()
	version -= min(version-c.countedVersion, uint64(s.Who))
	next := version
	if f.env.scenario.Shares {
		next = c.store.Version() + coreVersionBump
		c.store.Stop(coreRestoreTime)
		c.judged.restoredVersion = next
	}
	c.restoredAt = time.Now()
	c.store.Restore(version, next, func() { f.env.judge.recordCellRestore(c.name, version) })
	f.env.judge.recordRestoredNamespaces(c.judged)
	f.env.judge.recordRestoredShares(c.judged)
}

// restoreCore stops the API server of a core and takes the core back by a few changes. As etcd advises, its versions continue above those
// that it had given out.
func (f *clusterFaults) restoreCore(c *clusterState, s Step) {
	last := c.store.Version()
	version := last - min(last-c.countedVersion, uint64(s.N))
	shown := f.processes.shown(c.name)
	c.store.Stop(coreRestoreTime)
	c.store.Restore(version, last+coreVersionBump, func() { f.env.judge.recordLostDecisions(c.name, version, shown) })
	c.judged.restoredVersion = last + coreVersionBump
	f.env.judge.recordRestoredGuards(c.judged)
	leases, _ := c.store.List("leases", "")
	f.env.judge.recordRestoredShards(c.name, leases)
	f.env.judge.recordRestoredCellObjects(c.judged)
	if f.env.scenario.Shares {
		f.env.judge.recordRestoredProtectors(c.judged, version)
		return
	}
	f.env.judge.recordCoreRestore(c.judged, version, last+coreVersionBump)
}
