package aggregator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/aggregator"
	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/sharding/members"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

func (l *fixture) createRing() {
	l.Helper()
	ring := &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}
	ring.Spec = v1alpha1.ClusterRingSpec{ShardNamespace: l.namespace, LeaseDurationSeconds: 2}
	l.create(ring)
	l.Cleanup(func() { _ = l.client.Delete(context.Background(), ring) })
}

// shardUser returns a config with exactly the permissions that a shard needs.
func (l *fixture) shardUser() *rest.Config {
	l.Helper()
	rules := append(roles.Rules(l, "aggregator.core"), roles.Rules(l, "leases")...)
	return testplane.User(l, l.namespace, slices.Concat(rules, roles.Rules(l, "ring"), roles.Rules(l, "shard"), roles.Rules(l, "aggregator.cell")))
}

// runShard starts a shard, and returns a function that stops it.
func (l *fixture) runShard(user *rest.Config, name string) (stop func()) {
	l.Helper()
	interest := &clusters.CacheFilter{}
	return testplane.StartManager(l, user, func(ctx context.Context, mgr manager.Manager) error {
		membership, err := ownership.NewRingShard(ctx, mgr, ownership.RingShardOptions{Ring: l.namespace, Name: name})
		if err != nil {
			return err
		}
		return aggregator.SetupWithManager(ctx, mgr, aggregator.Options{
			Cell: l.cell, CellConfig: user, LeaseNamespace: l.namespace, LeaseDuration: 2 * time.Second, Heartbeat: time.Second, Workers: 2,
			Metrics: prometheus.NewRegistry(), Membership: membership, Interest: interest,
		})
	}, func(o *manager.Options) {
		members.Select(&o.Cache)
		interest.Select(&o.Cache)
	})
}

// slots returns the slots of the shards, by name.
func (l *fixture) slots() (of map[string]slot.Set, cell *v1alpha1.Cell) {
	l.Helper()
	cell, of = &v1alpha1.Cell{}, map[string]slot.Set{}
	if err := l.client.Get(l.Context(), client.ObjectKey{Name: l.cell}, cell); err != nil {
		l.Fatal(err)
	}
	for _, s := range cell.Status.Shards {
		slots, err := slot.Parse(s.Slots)
		if err != nil {
			l.Fatal(err)
		}
		of[s.Name] = slots
	}
	return of, cell
}

// awaitSlots waits until these shards have all slots, each its share, and the Cell records that.
func (l *fixture) awaitSlots(shards ...string) {
	l.Helper()
	l.eventually(func() string {
		of, cell := l.slots()
		total := 0
		for _, name := range shards {
			if most := (slot.Count*105/100 + len(shards)) / len(shards); of[name].Len() > most || of[name].Empty() {
				return fmt.Sprintf("%s has %d slots, want at most %d", name, of[name].Len(), most)
			}
			total += of[name].Len()
		}
		if ready := meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionReady); total != slot.Count || ready.Status != metav1.ConditionTrue {
			return fmt.Sprintf("%d slots are with %v: %s", total, shards, ready.Message)
		}
		return ""
	})
}

// awaitCount waits until a shard, or a leader, has counted that many pods.
func (l *fixture) awaitCount(holder string, available int) {
	l.Helper()
	l.eventually(func() string {
		for _, cell := range l.protector().Status.Cells {
			if cell.CellID == l.cell && strings.HasPrefix(cell.Aggregation.Holder, holder) && int(cell.Aggregation.CountedReplicas) == available {
				return ""
			}
		}
		return fmt.Sprintf("%+v, want %d counted by %s", l.protector().Status.Cells, available, holder)
	})
}

func TestShardsShareCellAndTakeOverSlots(t *testing.T) {
	l := newFixture(t)
	user := l.shardUser()
	l.createCell()
	l.createRing()
	l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	l.createPod("one", true)
	stops := map[string]func(){"a": l.runShard(user, "a")}
	l.awaitSlots("a")
	l.awaitCount("a_", 1)
	stops["b"] = l.runShard(user, "b")
	l.awaitSlots("a", "b")
	of, _ := l.slots()
	owner, other := "a", "b"
	if of["b"].Has(slot.Of(l.namespace)) {
		owner, other = other, owner
	}
	l.createPod("two", true)
	l.awaitCount(owner+"_", 2)
	epoch := l.protector().Status.Cells[0].Aggregation.Epoch

	stops[owner]()
	l.awaitSlots(other)
	l.createPod("three", true)
	l.awaitCount(other+"_", 3)
	if now := l.protector().Status.Cells[0].Aggregation.Epoch; now <= epoch {
		t.Errorf("the epoch is %d after another shard took the slot, and was %d", now, epoch)
	}
	stops[other]()
	l.eventually(func() string {
		_, cell := l.slots()
		ready := meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionReady)
		if len(cell.Status.Shards) > 0 || ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, "256 of 256 slots") {
			return fmt.Sprintf("%+v, %s", cell.Status.Shards, ready.Message)
		}
		return ""
	})
}

func TestLeaderAndShardsDoNotTakeCellFromEachOther(t *testing.T) {
	l := newFixture(t)
	user := l.shardUser()
	l.createCell()
	l.createRing()
	l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	l.createPod("one", true)
	stay := func(holder string) {
		t.Helper()
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
			if got := l.protector().Status.Cells[0].Aggregation.Holder; !strings.HasPrefix(got, holder) {
				t.Fatalf("the cell was taken by %s from %s", got, holder)
			}
		}
	}
	stopLeader := l.run("leader")
	l.awaitCount("leader", 1)
	stopShard := l.runShard(user, "a")
	stay("leader")
	stopLeader()
	l.awaitSlots("a")
	l.awaitCount("a_", 1)
	l.run("another")
	stay("a_")
	stopShard()
	l.createPod("two", true)
	l.awaitCount("another", 2)
}
