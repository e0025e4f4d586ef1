// Package slots_test tests cells that aggregators share out by slots, as shards of a ring: shards are killed, stopped and paused
// in storms, and come and go.
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

func name(l *e2e.Lab, n int) string { return install.AggregatorShardName(l.Core.Name, n) }

// owners are the shards that have the slot of the lab's namespace, by cell, and how many slots each shard has of a cell.
func owners(l *e2e.Lab) (by map[string]string, slots map[string]map[string]int) {
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

// awaitShared waits until all slots of all cells are with so many shards, none of which has much more than the others.
func awaitShared(l *e2e.Lab, among int) {
	l.Helper()
	l.Eventually(func() string {
		_, slots := owners(l)
		for cell, of := range slots {
			total := 0
			for shard, has := range of {
				total += has
				if most := (slot.Count*105/100 + among) / among; has > most || has == 0 {
					return fmt.Sprintf("%s has %d slots of cell %s, want at most %d: %v", shard, has, cell, most, of)
				}
			}
			if total != slot.Count || len(of) != among {
				return fmt.Sprintf("%d slots of cell %s are with %v, want all with %d", total, cell, of, among)
			}
		}
		return ""
	})
}

// ownerOf is the number of the shard that has the lab's slot of its first cell.
func ownerOf(l *e2e.Lab) int {
	l.Helper()
	owner := -1
	l.Eventually(func() string {
		by, _ := owners(l)
		for n := range shards {
			if by[l.Cells[0].Name] == name(l, n) {
				owner = n
				return ""
			}
		}
		return fmt.Sprintf("nobody has the slot of %s: %v", l.Namespace, by)
	})
	return owner
}

// awaitOther waits until another shard has it, and has written what it counts.
func awaitOther(l *e2e.Lab, than int) {
	l.Helper()
	l.Eventually(func() string {
		for i := range l.Protector().Status.Cells {
			cell := &l.Protector().Status.Cells[i]
			if strings.HasPrefix(cell.Aggregation.Holder, name(l, than)+"_") {
				return fmt.Sprintf("cell %s is counted by %s still", cell.CellID, cell.Aggregation.Holder)
			}
		}
		return ""
	})
}

// writers records who has written the lab's protector. Epochs never go back, and each has one writer.
type writers struct {
	mu      sync.Mutex
	last    map[string]int64
	holders map[string]string
	wrong   []string
	epochs  int
}

func watchWriters(l *e2e.Lab) *writers {
	l.Helper()
	w := &writers{last: map[string]int64{}, holders: map[string]string{}}
	c, err := client.NewWithWatch(l.Federation().Cores()[0].RESTConfig(), client.Options{Scheme: clusters.Scheme()})
	l.Must(err)
	ctx, stop := context.WithCancel(context.Background())
	l.Cleanup(stop)
	events, err := c.Watch(ctx, &v1alpha1.PodProtectorList{}, client.InNamespace(l.Namespace))
	l.Must(err)
	go func() {
		for event := range events.ResultChan() {
			if p, ok := event.Object.(*v1alpha1.PodProtector); ok && event.Type != watch.Deleted {
				w.see(p)
			}
		}
	}()
	return w
}

func (w *writers) see(p *v1alpha1.PodProtector) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range p.Status.Cells {
		id, a := p.Status.Cells[i].CellID, &p.Status.Cells[i].Aggregation
		if a.Epoch < w.last[id] {
			w.wrong = append(w.wrong, fmt.Sprintf("cell %s goes back from epoch %d to %d", id, w.last[id], a.Epoch))
		}
		w.last[id] = a.Epoch
		key := fmt.Sprint(id, " ", a.Epoch)
		if holder := w.holders[key]; holder == "" {
			w.epochs++
			w.holders[key] = a.Holder
		} else if holder != a.Holder {
			w.wrong = append(w.wrong, fmt.Sprintf("epoch %d of cell %s was written by %s and by %s", a.Epoch, id, holder, a.Holder))
		}
	}
}

func (w *writers) judge(l *e2e.Lab, least int) {
	l.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) > 0 {
		l.Errorf("%s", strings.Join(w.wrong, "\n"))
	}
	if w.epochs < least {
		l.Errorf("%d epochs were seen, want at least %d: the slot has not moved", w.epochs, least)
	}
}

// more makes pods in the midst of a storm, so that there is budget to be had when a shard counts them.
func more(l *e2e.Lab, instance string) {
	l.Helper()
	app := l.App(6)
	app.Instance = instance
	l.Must(app.DeployBare(l.Context(), l.Cells))
}

func TestTheShardsOfAStormAreKilledAndPausedAndScaled(t *testing.T) {
	suite.Claim(t, "the floor holds to the pod, whichever shard has the slot, and no budget is lost", func(l *e2e.Lab) {
		awaitShared(l, shards)
		seen := watchWriters(l)
		e2e.Tempest{Pods: 60, Floors: []int{40}, Lasts: true, During: func(l *e2e.Lab, gale *storm.Storm) {
			killed := ownerOf(l)
			l.AwaitRequests(gale, 20)
			l.Must(l.Breakwater.Kill(name(l, killed)))
			more(l, "killed")
			awaitOther(l, killed)
			l.AwaitRequests(gale, 20)

			paused := ownerOf(l)
			l.Must(l.Breakwater.Freeze(name(l, paused)))
			more(l, "paused")
			awaitOther(l, paused)
			l.Must(l.Breakwater.Thaw(name(l, paused)))
			l.Must(l.Breakwater.Restart(l.Context(), name(l, killed)))
			awaitShared(l, shards)
			l.AwaitRequests(gale, 20)

			ended := ownerOf(l)
			l.Must(l.Breakwater.Terminate(name(l, ended)))
			more(l, "ended")
			awaitOther(l, ended)
			awaitShared(l, shards-1)
			l.AwaitRequests(gale, 20)
			l.Must(l.Breakwater.Restart(l.Context(), name(l, ended)))
		}}.Rage(l)
		seen.judge(l, 2*3)
		awaitShared(l, shards)
	})
}

func TestShardsAreScaledFromOneToThreeToTwo(t *testing.T) {
	suite.Claim(t, "slots go where they belong, and what is counted stays true", func(l *e2e.Lab) {
		seen := watchWriters(l)
		for n := 1; n < shards; n++ {
			l.Must(l.Breakwater.Terminate(name(l, n)))
		}
		awaitShared(l, 1)
		e2e.Tempest{Pods: 40, Floors: []int{25}, Lasts: true, During: func(l *e2e.Lab, gale *storm.Storm) {
			l.AwaitRequests(gale, 20)
			for n := 1; n < shards; n++ {
				l.Must(l.Breakwater.Restart(l.Context(), name(l, n)))
			}
			awaitShared(l, 3)
			l.AwaitRequests(gale, 20)
			more(l, "scaled")
			l.Must(l.Breakwater.Terminate(name(l, 0)))
			awaitShared(l, 2)
			l.AwaitRequests(gale, 20)
		}}.Rage(l)
		seen.judge(l, 2)
		l.Must(l.Breakwater.Restart(l.Context(), name(l, 0)))
		awaitShared(l, shards)
	})
}
