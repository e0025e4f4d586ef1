package play

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/controllers/topology"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// cellObjects creates and deletes the Cells of the cores, and creates their ClusterRings.
type cellObjects struct {
	env *environment
}

func (cs *cellObjects) newCell(name string) *v1alpha1.Cell {
	cell := &v1alpha1.Cell{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CellSpec{AdmissionDeadline: &metav1.Duration{Duration: scenario.AdmissionDeadline}},
	}
	if cs.env.scenario.Topology.Discounts {
		cell.Spec.WhenStale, cell.Spec.StaleAfter = v1alpha1.WhenStaleDiscount, &metav1.Duration{Duration: scenario.StaleAfter}
	}
	return cell
}

// startTopology starts the topology controller of a core. It does not connect to workers.
func (ps *processes) startTopology(name, core string) *process {
	p := ps.newProcess(name)
	p.startAgain = func() *process { return ps.startTopology(name, core) }
	p.runManager(p.cores[core], clusters.CacheOptions(), func(ctx context.Context, mgr manager.Manager) error {
		return topology.Setup(ctx, delayedReadManager{orderedEventManager{mgr}}, nil, prometheus.NewRegistry())
	})
	return p
}

// changeCell deletes a Cell of a core, or recreates it as soon as the previous one is deleted.
func (cs *cellObjects) changeCell(n int, s scenario.Step) {
	core, name := cs.env.core(s), cs.env.cell(s).name
	cs.env.judge.RecordFault(scenario.Step{For: judge.MaxTimeWithoutCell})
	if s.What == scenario.DeleteCell {
		_, _ = core.store.Delete("cells", types.NamespacedName{Name: name}, "", scenario.User)
		return
	}
	cs.env.runAfter(0, func() {
		for try := range 30 {
			if _, err := core.store.Create("cells", cs.newCell(name), scenario.User); err == nil || !cs.isTerminating(core, name) {
				return
			}
			time.Sleep(cs.env.dice.Between(time.Second, 2*time.Second, fmt.Sprintf("create cell %d.%d", n, try)))
		}
	})
}

func (cs *cellObjects) isTerminating(core *clusterState, cell string) bool {
	object, err := core.store.Get("cells", types.NamespacedName{Name: cell})
	return err == nil && object.GetDeletionTimestamp() != nil
}

// createCells creates the Cells that do not exist, as soon as terminating ones are deleted.
func (cs *cellObjects) createCells(renewals *renewalClients) error {
	if cs.env.scenario.Topology.Runs && renewals.hasForced(cs.env.judge) {
		renewals.stopAll() // a removal by force is admitted, and so renewed, in a cell that drains too
	}
	return waitUntil(convergenceTime, func() string {
		for _, core := range cs.env.cores {
			for _, worker := range cs.env.workers {
				if cs.isTerminating(core, worker.name) {
					return fmt.Sprintf("Cell %s of %s is still being deleted", worker.name, core.name)
				}
				_, _ = core.store.Create("cells", cs.newCell(worker.name), scenario.User)
			}
		}
		return ""
	})
}

// Each aggregator of a shared cell is a shard of the cell's ring. A slot passes from one shard to another only when the first has given it
// up, or is dead according to its Lease. Each leadership has its own epoch, and a shard that has given a slot up writes nothing of it.

func ringName(cell string) string { return "ring-" + cell }

func (cs *cellObjects) createRings() {
	for _, core := range cs.env.cores {
		for _, worker := range cs.env.workers {
			core.create("clusterrings", &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: ringName(worker.name)}, Spec: v1alpha1.ClusterRingSpec{
				ShardNamespace: scenario.LeaseNamespace, TokensPerShard: 50, LeaseDurationSeconds: int32(scenario.LeaseDuration.Seconds()),
			}})
		}
	}
}

func (p *process) joinRing(ctx context.Context, mgr manager.Manager, cell string) (*ownership.RingShard, error) {
	skew := func() time.Duration { return time.Duration(p.skew.Load()) }
	return ownership.NewRingShard(ctx, skewedClockManager{mgr, skew}, ownership.RingShardOptions{
		Ring: ringName(cell), Name: p.name,
		// Some shards stop permanently, others in order to return.
		Returns: strings.HasSuffix(p.name, "1"),
	})
}

// restartShards scales the shards of a cell down, and up again after a while.
func (f *processFaults) restartShards(s scenario.Step) {
	old, ok := pick(f.processes.aggregators, s.Who)
	if !ok || old.pauseState.hasEnded() || old.isStopping.Swap(true) {
		return
	}
	old.stop()
	f.env.runAfter(s.For, func() {
		<-old.ended
		old.kill()
		f.processes.replace(&f.processes.aggregators, old, old.startAgain())
	})
}
