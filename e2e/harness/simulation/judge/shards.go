package judge

import (
	"fmt"
	"maps"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

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

// RecordRestoredShards records that a restored core has an earlier state of the shards: a shard that gave a slot up since may hold it again.
func (j *Judge) RecordRestoredShards(core string, leases []client.Object) {
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
		j.report.trace.Add("%s: cell %s by %s, which takes %d slots, epoch %d: %v", core, cell.Name, by, taken, cell.Status.Aggregator.Epoch, parts)
	}
	if taken > 0 && cell.Status.Aggregator.Epoch <= old.Status.Aggregator.Epoch {
		j.report.fail("%s claimed %d slots of cell %s without raising epoch %d", e.By, taken, cell.Name, old.Status.Aggregator.Epoch)
	}
}

// shardingProblem returns "" if every slot of every cell is with a shard that holds its Lease, and every shard has slots. Otherwise it returns
// why not.
func (cv *Convergence) shardingProblem(core *Cluster) string {
	if !cv.Scenario.Shared {
		return ""
	}
	cv.Judge.mu.Lock()
	defer cv.Judge.mu.Unlock()
	objects, _ := core.Store.List("cells", "")
	for _, object := range objects {
		cell, _ := object.(*v1alpha1.Cell)
		owners, shards := slotOwners(cell), map[string]bool{}
		for n := range slot.Count {
			is := owners[n]
			key := core.Name + "/" + is.shard
			if cv.Judge.rings.leaseAcquired[key].Before(cv.Judge.history.processStarts[is.shard]) {
				return fmt.Sprintf("slot %d of cell %s is assigned to %s, which has not restarted yet", n, cell.Name, is.shard)
			}
			if holder := cv.Judge.rings.leases[key]; is.holder == "" || holder != is.holder {
				return fmt.Sprintf("slot %d of cell %s is assigned to %q, but the Lease holder is %q", n, cell.Name, is.holder, holder)
			}
			shards[is.shard] = true
		}
		if len(shards) != cv.Scenario.AggregatorsPerCell {
			return fmt.Sprintf("the slots of cell %s are assigned to %d of %d shards", cell.Name, len(shards), cv.Scenario.AggregatorsPerCell)
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
