package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/controllers/topology"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// In a sixth of the seeds, the topology controller runs in each core. Users delete Cells and recreate them. All aggregators of a cell are
// paused for so long that protectors discount its pods, if the Cells ask for that. judge_topology.go states the rules.

// topologyStream is the random stream of these scenarios. It was chosen so that it changes no seed that tests, mutants or docs name.
const topologyStream = 0x746f706f00f1

// TopologyPlan states whether the topology controller runs, and how the Cells are configured then.
type TopologyPlan struct {
	Runs bool
	// Discounts sets whenStale: Discount.
	Discounts bool
}

// maxTimeWithoutCell is how long it may take from the deletion of a Cell until it is recreated, and from then until it is counted.
const maxTimeWithoutCell = time.Minute

// staleAfter is that of the Cells: two heartbeats, plus the network delay of one.
const staleAfter = 25 * time.Second

// cellObjects creates and deletes the Cells of the cores, and creates their ClusterRings.
type cellObjects struct {
	env *environment
}

func (cs *cellObjects) newCell(name string) *v1alpha1.Cell {
	cell := &v1alpha1.Cell{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CellSpec{AdmissionDeadline: &metav1.Duration{Duration: admissionDeadline}},
	}
	if cs.env.scenario.Topology.Discounts {
		cell.Spec.WhenStale, cell.Spec.StaleAfter = v1alpha1.WhenStaleDiscount, &metav1.Duration{Duration: staleAfter}
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
func (cs *cellObjects) changeCell(n int, s Step) {
	core, name := cs.env.core(s), cs.env.cell(s).name
	cs.env.judge.recordFault(Step{For: maxTimeWithoutCell})
	if s.What == DeleteCell {
		_, _ = core.store.Delete("cells", types.NamespacedName{Name: name}, "", user)
		return
	}
	cs.env.runAfter(0, func() {
		for try := range 30 {
			if _, err := core.store.Create("cells", cs.newCell(name), user); err == nil || !cs.isTerminating(core, name) {
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
				_, _ = core.store.Create("cells", cs.newCell(worker.name), user)
			}
		}
		return ""
	})
}

func drawTopology(s *Scenario, r *rand.Rand) {
	if r.IntN(6) > 0 {
		return
	}
	s.Topology = TopologyPlan{Runs: true, Discounts: r.IntN(2) == 0}
	for range 1 + r.IntN(2) {
		begin, cell, core := randomTime(r), r.IntN(s.Workers), r.IntN(s.Cores)
		if length := time.Duration(30+r.IntN(20)) * time.Second; s.Topology.Discounts && r.IntN(2) == 0 {
			for i := range s.AggregatorsPerCell {
				s.Steps = append(s.Steps, Step{At: begin, What: PauseAggregator, Who: (core*s.Workers+cell)*s.AggregatorsPerCell + i, For: length})
			}
			drawRemovalWave(s, r, begin+length-8*time.Second, 16*time.Second)
			continue
		}
		s.Steps = append(s.Steps, Step{At: begin, What: DeleteCell, Cell: cell, Core: core})
		again := begin + time.Duration(1+r.IntN(40))*time.Second
		s.Steps = append(s.Steps, Step{At: again, What: CreateCell, Cell: cell, Core: core})
		drawRemovalWave(s, r, begin-2*time.Second, 15*time.Second)
		drawRemovalWave(s, r, again, 15*time.Second)
		if r.IntN(4) == 0 {
			s.Steps = append(s.Steps, Step{At: begin + time.Duration(r.IntN(10000))*time.Millisecond, What: KillTopology, Who: core, For: 5 * time.Second})
		}
	}
}

// drawRemovalWave adds removals and new pods in all cells within a time.
func drawRemovalWave(s *Scenario, r *rand.Rand, begin, width time.Duration) {
	for range 4 + r.IntN(10) {
		step := Step{
			At: max(0, begin+time.Duration(r.Int64N(int64(width)))), What: []StepKind{Delete, Delete, Evict, CreatePod, Die}[r.IntN(5)], Cell: r.IntN(s.Workers),
			Who: r.IntN(16), For: time.Second, RefusedLater: r.IntN(8) == 0,
		}
		step.Stuck = randomHang(r, 4)
		s.Steps = append(s.Steps, step)
	}
}

// withoutTopology returns the scenario with Cells that stay.
func (s Scenario) withoutTopology() Scenario {
	s.Topology = TopologyPlan{}
	s.Steps = slices.DeleteFunc(slices.Clone(s.Steps), func(step Step) bool {
		return step.What == DeleteCell || step.What == CreateCell || step.What == KillTopology
	})
	return s
}
