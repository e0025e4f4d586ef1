package play

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/controllers/generator"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
)

// clusterFaults restart and restore clusters, and delete what they store for our components.
type clusterFaults struct {
	env       *environment
	processes *processes
}

func (f *clusterFaults) addSteps(steps stepTable) {
	fault := func(do func(scenario.Step), kind scenario.StepKind) { steps.addFault(f.env.judge, do, kind) }
	fault(func(s scenario.Step) {
		name := types.NamespacedName{Namespace: scenario.LeaseNamespace, Name: "aggregator-" + f.env.cell(s).name}
		_, _ = f.env.core(s).store.Delete("leases", name, "", "user")
	}, scenario.DeleteLease)
	fault(func(s scenario.Step) { f.env.clusterOf(s).store.Compact() }, scenario.CompactHistory)
	fault(func(s scenario.Step) { f.env.clusterOf(s).store.Restart() }, scenario.RestartCluster)
	fault(func(s scenario.Step) { f.restoreWorker(f.env.cell(s), s) }, scenario.RestoreWorker)
	fault(func(s scenario.Step) { f.restoreCore(f.env.core(s), s) }, scenario.RestoreCore)
}

// coreRestoreTime is how long the API server of a core is stopped for a restore. The generator relies on more than generator.MaxReadAge
// from its decision to the arrival of its write. A write that waits for a hold of its connection or process still arrives later.
const coreRestoreTime = generator.MaxReadAge + time.Second

// restoreWorker takes a worker back by a few changes. Its pods return to their state at that version, and later changes are lost. With shares
// it is restored like a core.
func (f *clusterFaults) restoreWorker(c *clusterState, s scenario.Step) {
	version := c.store.Version()
	version -= min(version-c.countedVersion, uint64(s.Who))
	next := version
	if f.env.scenario.Shares {
		next = c.store.Version() + judge.CoreVersionBump
		c.store.Stop(coreRestoreTime)
		c.judged.RestoredVersion = next
	}
	c.restoredAt = time.Now()
	c.store.Restore(version, next, func() { f.env.judge.RecordCellRestore(c.name, version) })
	f.env.judge.RecordRestoredNamespaces(c.judged)
	f.env.judge.RecordRestoredShares(c.judged)
}

// restoreCore stops the API server of a core and takes the core back by a few changes. As etcd advises, its versions continue above those
// that it had given out.
func (f *clusterFaults) restoreCore(c *clusterState, s scenario.Step) {
	last := c.store.Version()
	version := last - min(last-c.countedVersion, uint64(s.N))
	shown := f.processes.shown(c.name)
	c.store.Stop(coreRestoreTime)
	c.store.Restore(version, last+judge.CoreVersionBump, func() { f.env.judge.RecordLostDecisions(c.name, version, shown) })
	c.judged.RestoredVersion = last + judge.CoreVersionBump
	f.env.judge.RecordRestoredGuards(c.judged)
	leases, _ := c.store.List("leases", "")
	f.env.judge.RecordRestoredShards(c.name, leases)
	f.env.judge.RecordRestoredCellObjects(c.judged)
	if f.env.scenario.Shares {
		f.env.judge.RecordRestoredProtectors(c.judged, version)
		return
	}
	f.env.judge.RecordCoreRestore(c.judged, version, last+judge.CoreVersionBump)
}
