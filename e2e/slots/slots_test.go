// Package slots_test tests cells that several aggregators share by slots, as shards of a ring. It kills, stops, pauses, adds and removes
// shards during storms.
package slots_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

const (
	shards     = 3
	shardLease = 3 * time.Second
)

var suite = e2e.NewSuite("federated", func(o *install.Options) {
	o.CellsByObjects, o.AggregatorShards, o.ShardLease = true, shards, shardLease
})

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

func shardName(l *e2e.Fixture, n int) string { return install.AggregatorShardName(l.Core.Name, n) }

// slotOwners returns the shard that owns the slot of the fixture's namespace, by cell, and the number of slots of each shard, by cell.
func slotOwners(l *e2e.Fixture) (by map[string]string, slots map[string]map[string]int) {
	l.Helper()
	cells := &v1alpha1.CellList{}
	l.Must(l.Core.List(l.Context(), cells))
	by, slots = map[string]string{}, map[string]map[string]int{}
	for i := range cells.Items {
		cell := &cells.Items[i]
		slots[cell.Name] = map[string]int{}
		for _, s := range cell.Status.Shards {
			has, err := slot.Parse(s.Slots)
			l.Must(err)
			slots[cell.Name][s.Name] = has.Len()
			if has.Has(slot.Of(l.Namespace)) {
				by[cell.Name] = s.Name
			}
		}
	}
	return by, slots
}

// waitForBalance waits until the given number of shards own all slots of all cells, and none of them owns much more than an equal share.
func waitForBalance(l *e2e.Fixture, among int) {
	l.Helper()
	l.Eventually(func() string {
		_, slots := slotOwners(l)
		for cell, of := range slots {
			total := 0
			for shard, has := range of {
				total += has
				if most := (slot.Count*105/100 + among) / among; has > most || has == 0 {
					return fmt.Sprintf("%s has %d slots of cell %s, want at most %d: %v", shard, has, cell, most, of)
				}
			}
			if total != slot.Count || len(of) != among {
				return fmt.Sprintf("%d slots of cell %s are assigned to %v, want all to %d shards", total, cell, of, among)
			}
		}
		return ""
	})
}

// ownerIndex waits until a shard owns the fixture's slot in the first cell, and returns the index of that shard.
func ownerIndex(l *e2e.Fixture) int {
	l.Helper()
	owner := -1
	l.Eventually(func() string {
		by, _ := slotOwners(l)
		for n := range shards {
			if by[l.Cells[0].Name] == shardName(l, n) {
				owner = n
				return ""
			}
		}
		return fmt.Sprintf("no shard has the slot of %s: %v", l.Namespace, by)
	})
	return owner
}

// waitForOtherOwner waits until another shard owns the slot and has written its counts.
func waitForOtherOwner(l *e2e.Fixture, index int) {
	l.Helper()
	l.Eventually(func() string {
		for i := range l.GetProtector().Status.Cells {
			cell := &l.GetProtector().Status.Cells[i]
			if strings.HasPrefix(cell.Aggregation.Holder, shardName(l, index)+"_") {
				return fmt.Sprintf("cell %s is still counted by %s", cell.CellID, cell.Aggregation.Holder)
			}
		}
		return ""
	})
}

// writerRecorder records which aggregators have written the fixture's protector. Epochs never decrease, and each epoch has one writer.
type writerRecorder struct {
	mu         sync.Mutex
	last       map[string]int64
	holders    map[string]string
	violations []string
	epochs     int
}

func watchWriters(l *e2e.Fixture) *writerRecorder {
	l.Helper()
	w := &writerRecorder{last: map[string]int64{}, holders: map[string]string{}}
	c, err := client.NewWithWatch(l.Federation().Cores()[0].RESTConfig(), client.Options{Scheme: clusters.Scheme()})
	l.Must(err)
	ctx, stop := context.WithCancel(context.Background())
	l.Cleanup(stop)
	events, err := c.Watch(ctx, &v1alpha1.PodProtectorList{}, client.InNamespace(l.Namespace))
	l.Must(err)
	go func() {
		for event := range events.ResultChan() {
			if p, ok := event.Object.(*v1alpha1.PodProtector); ok && event.Type != watch.Deleted {
				w.record(p)
			}
		}
	}()
	return w
}

func (w *writerRecorder) record(p *v1alpha1.PodProtector) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range p.Status.Cells {
		id, a := p.Status.Cells[i].CellID, &p.Status.Cells[i].Aggregation
		if a.Epoch < w.last[id] {
			w.violations = append(w.violations, fmt.Sprintf("cell %s went back from epoch %d to %d", id, w.last[id], a.Epoch))
		}
		w.last[id] = a.Epoch
		key := fmt.Sprint(id, " ", a.Epoch)
		if holder := w.holders[key]; holder == "" {
			w.epochs++
			w.holders[key] = a.Holder
		} else if holder != a.Holder {
			w.violations = append(w.violations, fmt.Sprintf("epoch %d of cell %s was written by %s and by %s", a.Epoch, id, holder, a.Holder))
		}
	}
}

func (w *writerRecorder) expectNoViolation(l *e2e.Fixture, minEpochs int) {
	l.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.violations) > 0 {
		l.Errorf("%s", strings.Join(w.violations, "\n"))
	}
	if w.epochs < minEpochs {
		l.Errorf("got %d epochs, want at least %d: the slot has not moved", w.epochs, minEpochs)
	}
}

// createMorePods creates pods during a storm, so that there is budget as soon as a shard counts them.
func createMorePods(l *e2e.Fixture, instance string) {
	l.Helper()
	app := l.Application(6)
	app.Instance = instance
	l.Must(app.DeployBare(l.Context(), l.Cells))
}

func TestStormWithKilledPausedAndScaledShards(t *testing.T) {
	suite.Claim(t, "the floor holds exactly while the slot moves between shards, and no budget is lost", func(l *e2e.Fixture) {
		waitForBalance(l, shards)
		seen := watchWriters(l)
		e2e.FaultStorm{Pods: 60, FloorsByCore: []int{40}, EndsWithDuring: true, DuringStorm: func(l *e2e.Fixture, load *storm.Storm) {
			killed := ownerIndex(l)
			l.WaitForRequests(load, 20)
			l.Must(l.Breakwater.Kill(shardName(l, killed)))
			createMorePods(l, "killed")
			waitForOtherOwner(l, killed)
			l.WaitForRequests(load, 20)

			paused := ownerIndex(l)
			l.Must(l.Breakwater.Freeze(shardName(l, paused)))
			createMorePods(l, "paused")
			waitForOtherOwner(l, paused)
			l.Must(l.Breakwater.Thaw(shardName(l, paused)))
			l.Must(l.Breakwater.Restart(l.Context(), shardName(l, killed)))
			waitForBalance(l, shards)
			l.WaitForRequests(load, 20)

			ended := ownerIndex(l)
			l.Must(l.Breakwater.Terminate(shardName(l, ended)))
			createMorePods(l, "ended")
			waitForOtherOwner(l, ended)
			waitForBalance(l, shards-1)
			l.WaitForRequests(load, 20)
			l.Must(l.Breakwater.Restart(l.Context(), shardName(l, ended)))
		}}.Run(l)
		seen.expectNoViolation(l, 2*3)
		waitForBalance(l, shards)
	})
}

func TestScaleShardsFromOneToThreeToTwo(t *testing.T) {
	suite.Claim(t, "slots move to the available shards, and the counts stay correct", func(l *e2e.Fixture) {
		seen := watchWriters(l)
		for n := 1; n < shards; n++ {
			l.Must(l.Breakwater.Terminate(shardName(l, n)))
		}
		waitForBalance(l, 1)
		e2e.FaultStorm{Pods: 40, FloorsByCore: []int{25}, EndsWithDuring: true, DuringStorm: func(l *e2e.Fixture, load *storm.Storm) {
			l.WaitForRequests(load, 20)
			for n := 1; n < shards; n++ {
				l.Must(l.Breakwater.Restart(l.Context(), shardName(l, n)))
			}
			waitForBalance(l, 3)
			l.WaitForRequests(load, 20)
			createMorePods(l, "scaled")
			l.Must(l.Breakwater.Terminate(shardName(l, 0)))
			waitForBalance(l, 2)
			l.WaitForRequests(load, 20)
		}}.Run(l)
		seen.expectNoViolation(l, 2)
		l.Must(l.Breakwater.Restart(l.Context(), shardName(l, 0)))
		waitForBalance(l, shards)
	})
}
