package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/aggregator"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// Each aggregator of a shared cell is a shard of the cell's ring. A slot passes from one shard to another only when the first has given it
// up, or is dead according to its Lease. Each leadership has its own epoch, and a shard that has given a slot up writes nothing of it.

func ringName(cell string) string { return "ring-" + cell }

func (cs *cellObjects) createRings() {
	for _, core := range cs.env.cores {
		for _, worker := range cs.env.workers {
			core.create("clusterrings", &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: ringName(worker.name)}, Spec: v1alpha1.ClusterRingSpec{
				ShardNamespace: leaseNamespace, TokensPerShard: 50, LeaseDurationSeconds: int32(leaseDuration.Seconds()),
			}})
		}
	}
}

func (p *process) joinRing(ctx context.Context, mgr manager.Manager, cell string) (*aggregator.RingShard, error) {
	skew := func() time.Duration { return time.Duration(p.skew.Load()) }
	return aggregator.NewRingShard(ctx, skewedClockManager{mgr, skew}, aggregator.RingShardOptions{
		Ring: ringName(cell), Name: p.name,
		// Some shards stop permanently, others in order to return.
		Returns: strings.HasSuffix(p.name, "1"),
	})
}

// restartShards scales the shards of a cell down, and up again after a while.
func (f *processFaults) restartShards(s Step) {
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

// slotKey is a slot of a cell that an incarnation of a shard holds.
type slotKey struct {
	core, cell, holder string
	slot               int
}

// ringJudge judges which shard takes which slots, and who writes by them. The lock of the judge guards it.
type ringJudge struct {
	report *report
	// leases are the holders of the Leases of shards by core and name. leaseAcquired is when each holder took its Lease. slotsReleased is when an
	// incarnation of a holder gave a slot up.
	leases        map[string]string
	leaseAcquired map[string]time.Time
	slotsReleased map[slotKey]time.Time
}

// recordShardLease records the holder of a shard's Lease.
func (j *ringJudge) recordShardLease(core string, lease *coordinationv1.Lease, e *apiserver.Event) {
	key := core + "/" + lease.Name
	if e.Type == watch.Deleted || lease.Spec.HolderIdentity == nil {
		delete(j.leases, key)
		return
	}
	if holder := *lease.Spec.HolderIdentity; holder != j.leases[key] {
		j.leases[key], j.leaseAcquired[key] = holder, time.Now()
	}
}

// recordRestoredShards records that a restored core has an earlier state of the shards: a shard that gave a slot up since may hold it again.
func (j *judge) recordRestoredShards(core string, leases []client.Object) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rings.recordRestore(core, leases)
}

func (j *ringJudge) recordRestore(core string, leases []client.Object) {
	maps.DeleteFunc(j.slotsReleased, func(s slotKey, _ time.Time) bool { return s.core == core })
	maps.DeleteFunc(j.leases, func(key, _ string) bool { return strings.HasPrefix(key, core+"/") })
	for _, object := range leases {
		if lease, ok := object.(*coordinationv1.Lease); ok && lease.Spec.HolderIdentity != nil {
			j.leases[core+"/"+lease.Name] = *lease.Spec.HolderIdentity
		}
	}
}

type slotOwner struct{ shard, holder string }

func slotOwners(cell *v1alpha1.Cell) map[int]slotOwner {
	owners := map[int]slotOwner{}
	for i := range cell.Status.Shards {
		s := &cell.Status.Shards[i]
		for n := range slot.Recorded(s.Slots).Each() {
			owners[n] = slotOwner{s.Name, s.Holder}
		}
	}
	return owners
}

// judgeSlotMoves judges which shard takes slots from which.
func (j *ringJudge) judgeSlotMoves(core string, cell *v1alpha1.Cell, e *apiserver.Event) {
	old, ok := e.Old.(*v1alpha1.Cell)
	if !ok {
		return
	}
	before, after := slotOwners(old), slotOwners(cell)
	if len(before) == 0 && len(after) == 0 {
		return
	}
	taken, mine := 0, 0
	var parts []string
	for i := range cell.Status.Shards {
		slots := slot.Recorded(cell.Status.Shards[i].Slots)
		mine += slots.Len()
		parts = append(parts, fmt.Sprintf("%s %d", cell.Status.Shards[i].Name, slots.Len()))
	}
	if mine != len(after) {
		j.report.fail("%s assigned a slot of cell %s to two shards", e.By, cell.Name)
	}
	by, _, _ := strings.Cut(e.By, "@")
	for n := range slot.Count {
		was, is := before[n], after[n]
		if was == is {
			continue
		}
		if was.shard == by {
			j.slotsReleased[slotKey{core, cell.Name, was.holder, n}] = time.Now()
		} else if was.holder != "" && j.leases[core+"/"+was.shard] == was.holder {
			j.report.fail("%s claimed slot %d of cell %s from %s, which still holds its Lease", e.By, n, cell.Name, was.holder)
		}
		if is.holder != "" {
			taken++
			delete(j.slotsReleased, slotKey{core, cell.Name, is.holder, n})
		}
	}
	if taken > 0 {
		j.report.counts.SlotMoves++
	}
	if !maps.Equal(before, after) {
		j.report.trace.add("%s: cell %s by %s, which takes %d slots, epoch %d: %v", core, cell.Name, by, taken, cell.Status.Aggregator.Epoch, parts)
	}
	if taken > 0 && cell.Status.Aggregator.Epoch <= old.Status.Aggregator.Epoch {
		j.report.fail("%s claimed %d slots of cell %s without raising epoch %d", e.By, taken, cell.Name, old.Status.Aggregator.Epoch)
	}
}

// shardingProblem returns "" if every slot of every cell is with a shard that holds its Lease, and every shard has slots. Otherwise it returns
// why not.
func (cv *convergence) shardingProblem(core *clusterView) string {
	if !cv.scenario.Shared {
		return ""
	}
	cv.judge.mu.Lock()
	defer cv.judge.mu.Unlock()
	objects, _ := core.store.List("cells", "")
	for _, object := range objects {
		cell, _ := object.(*v1alpha1.Cell)
		owners, shards := slotOwners(cell), map[string]bool{}
		for n := range slot.Count {
			is := owners[n]
			key := core.name + "/" + is.shard
			if cv.judge.rings.leaseAcquired[key].Before(cv.judge.history.processStarts[is.shard]) {
				return fmt.Sprintf("slot %d of cell %s is assigned to %s, which has not restarted yet", n, cell.Name, is.shard)
			}
			if holder := cv.judge.rings.leases[key]; is.holder == "" || holder != is.holder {
				return fmt.Sprintf("slot %d of cell %s is assigned to %q, but the Lease holder is %q", n, cell.Name, is.holder, holder)
			}
			shards[is.shard] = true
		}
		if len(shards) != cv.scenario.AggregatorsPerCell {
			return fmt.Sprintf("the slots of cell %s are assigned to %d of %d shards", cell.Name, len(shards), cv.scenario.AggregatorsPerCell)
		}
	}
	return ""
}

// maxInFlight is how long a write may be in transit after its sender has stopped.
const maxInFlight = 2 * time.Second

// judgeWriter judges whether an aggregator may still write its counts.
func (j *ringJudge) judgeWriter(w *watchedProtector, cell, before *v1alpha1.PodProtectorCell, e *apiserver.Event) {
	a := &cell.Aggregation
	if !strings.HasPrefix(e.By, "aggregator") || a.SnapshotVersion == before.Aggregation.SnapshotVersion && a.Epoch == before.Aggregation.Epoch {
		return
	}
	at, isReleased := j.slotsReleased[slotKey{w.core, cell.CellID, a.Holder, slot.Of(w.stored.Namespace)}]
	if isReleased && time.Since(at) > maxInFlight {
		j.report.fail("%s released the slot of protector %s in cell %s, but wrote the protector %s later", a.Holder, w.name(), cell.CellID, time.Since(at))
	}
}

// DrawShared returns a scenario of a seed in which shards divide the cells, and stop and return.
func DrawShared(seed uint64) Scenario {
	s := Draw(seed).withoutWorkloads().withoutTopology()
	r := newRand(seed, 0x736c6f74)
	s.Shared, s.AggregatorsPerCell, s.Spaces = true, 2+r.IntN(3), 2+r.IntN(4)
	s.Workers, s.Pods = min(s.Workers, 2), max(s.Pods, 2*s.Spaces)
	for i := range s.Steps {
		s.Steps[i].Cell %= s.Workers + s.Cores
	}
	each := s.Pods / s.Spaces
	for n := range s.Spaces {
		plan := s.Protectors[n%len(s.Protectors)]
		plan.Name, plan.Space, plan.Floor = plan.Name+string(rune('a'+n)), n, r.IntN(each+1)
		s.Protectors = append(s.Protectors, plan)
	}
	s.Protectors = s.Protectors[len(s.Protectors)-s.Spaces:]
	for range 2 + r.IntN(5) {
		kinds := []StepKind{KillAggregator, PauseAggregator, PauseAggregator, StopAggregator, StopAggregator, CutLink, StallWatches, JumpClock}
		step := Step{
			At: randomTime(r), What: kinds[r.IntN(len(kinds))], Cell: r.IntN(s.Workers + s.Cores), Who: r.IntN(64), N: r.IntN(5) - 2,
			For: time.Duration(100+r.IntN(30000)) * time.Millisecond,
		}
		if step.What == CutLink || step.What == StallWatches { // those of an aggregator
			step.Who = s.Webhooks + step.Who%(s.AggregatorsPerCell*s.Workers*s.Cores)
		}
		s.Steps = append(s.Steps, step)
	}
	for range 1 + r.IntN(3) {
		drawBurst(&s, r)
	}
	slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return s
}
