package ownership_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ownership"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// fixture is a ring and its shards. The test sets whether they are alive.
type fixture struct {
	*testing.T
	client client.Client
	ring   string

	mu      sync.Mutex
	states  map[string]v1alpha1.ShardState
	members map[string]*testShard
}

type testShard struct {
	*ownership.Slots
	held atomic.Bool
	// stop ends the member, which then gives up its slots.
	stop func()
}

func newFixture(t *testing.T) *fixture {
	l := &fixture{T: t, client: testplane.Client(t), states: map[string]v1alpha1.ShardState{}, members: map[string]*testShard{}}
	clusterRing := &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{GenerateName: "ownership-"}}
	if err := l.client.Create(t.Context(), clusterRing); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.client.Delete(context.Background(), clusterRing) })
	l.ring = clusterRing.Name
	return l
}

func (l *fixture) shards(*v1alpha1.ClusterRing) *ring.Shards {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ring.NewShards(l.states, 100)
}

// set sets the state of a shard, and notifies all.
func (l *fixture) set(shard string, state v1alpha1.ShardState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.states[shard] = state
	for _, m := range l.members {
		m.RequestCheck()
	}
}

// start starts an incarnation of a shard, which is alive.
func (l *fixture) start(shard, incarnation string) *testShard {
	m := &testShard{}
	m.held.Store(true)
	m.Slots = ownership.New(ownership.Options{
		Ring: l.ring, Shard: shard, Holder: shard + "_" + incarnation, IsHeld: m.held.Load, Shards: l.shards,
		IsDead: func(_ context.Context, _ *v1alpha1.ClusterRing, shard string) (bool, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if state, ok := l.states[shard]; ok {
				return !ring.IsAvailable(state), nil
			}
			return false, errors.New("no answer")
		},
		Live: l.client, Client: l.client, Log: testr.New(l.T),
	})
	l.mu.Lock()
	l.members[shard] = m
	l.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = m.Start(ctx)
	}()
	m.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	l.Cleanup(m.stop)
	l.set(shard, v1alpha1.ShardReady)
	return m
}

// owners returns the shards that work in a namespace.
func owners(of map[string]*testShard, namespace string) (names []string) {
	for name, m := range of {
		if leave, ok := m.Enter(namespace); ok {
			leave()
			names = append(names, name)
		}
	}
	return names
}

// namespaceOf returns a namespace of a slot.
func namespaceOf(n int) string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("ns-%d", i); slot.Of(name) == n {
			return name
		}
	}
}

// awaitDivided waits until each slot belongs to one of these shards, and each shard has some.
func (l *fixture) awaitDivided(shards ...string) {
	l.Helper()
	among := map[string]*testShard{}
	for _, name := range shards {
		among[name] = l.members[name]
	}
	deadline, state := time.After(30*time.Second), ""
	for {
		missing := 0
		for n := range slot.Count {
			if len(owners(among, namespaceOf(n))) == 0 {
				missing++
			}
		}
		state = fmt.Sprintf("%d slots have no shard;", missing)
		all := missing == 0
		for _, name := range shards {
			state += fmt.Sprintf(" %s has %d", name, among[name].SlotCount())
			all = all && among[name].SlotCount() > 0
		}
		if all {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
			for _, name := range shards {
				among[name].RequestCheck() // as a watch of the ring does
			}
		case <-deadline:
			l.Fatal(state)
		}
	}
}

// watch continuously checks that no two shards work in one namespace.
func (l *fixture) watch() (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n = (n + 1) % slot.Count {
			select {
			case <-over:
				return
			default:
			}
			l.mu.Lock()
			among := map[string]*testShard{}
			for name, m := range l.members {
				among[name] = m
			}
			l.mu.Unlock()
			var leaves []func()
			for _, m := range among {
				if leave, ok := m.Enter(namespaceOf(n)); ok {
					leaves = append(leaves, leave)
				}
			}
			if len(leaves) > 1 {
				l.Errorf("%d shards work in slot %d", len(leaves), n)
			}
			for _, leave := range leaves {
				leave()
			}
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}

func TestShardsPartitionNamespaces(t *testing.T) {
	l := newFixture(t)
	stop := l.watch()
	l.start("a", "1")
	l.awaitDivided("a")
	l.start("b", "1")
	l.start("c", "1")
	l.awaitDivided("a", "b", "c")
	l.members["b"].stop() // it gives up its slots
	l.set("b", v1alpha1.ShardDead)
	l.awaitDivided("a", "c")
	stop()
	clusterRing := &v1alpha1.ClusterRing{}
	if err := l.client.Get(t.Context(), client.ObjectKey{Name: l.ring}, clusterRing); err != nil {
		t.Fatal(err)
	}
	if len(clusterRing.Status.Holdings) != 2 {
		t.Errorf("recorded: %+v", clusterRing.Status.Holdings)
	}
}

func TestShardThatMayLiveKeepsSlots(t *testing.T) {
	l := newFixture(t)
	l.start("a", "1")
	l.start("b", "1")
	l.awaitDivided("a", "b")
	b := l.members["b"]
	for _, state := range []v1alpha1.ShardState{v1alpha1.ShardExpired, v1alpha1.ShardUncertain} {
		l.set("b", state)
		has := b.SlotCount()
		l.awaitRebalance("a")
		if l.members["a"].SlotCount()+has != slot.Count {
			t.Errorf("%s: a has %d, b %d", state, l.members["a"].SlotCount(), has)
		}
	}
	b.held.Store(false) // its Lease has expired, and it does not see the other shards' changes
	for n := range slot.Count {
		if names := owners(map[string]*testShard{"b": b}, namespaceOf(n)); len(names) > 0 {
			t.Fatal("Enter() = true without the Lease, want false")
		}
	}
	l.set("b", v1alpha1.ShardDead)
	l.awaitDivided("a")
}

// awaitRebalance waits until a shard has checked the ownership of slots twice.
func (l *fixture) awaitRebalance(shard string) {
	l.Helper()
	for range 2 {
		l.members[shard].RequestCheck()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for l.members[shard].CheckRequested() {
				<-time.After(5 * time.Millisecond)
			}
		}()
		<-done
	}
}

func TestNewIncarnationHasNoSlotsOfFormerOne(t *testing.T) {
	l := newFixture(t)
	l.start("a", "1")
	l.start("b", "1")
	l.awaitDivided("a", "b")
	former := l.members["b"]
	former.held.Store(false) // killed: it gives nothing up
	l.start("b", "2")
	l.awaitDivided("a", "b")
	clusterRing := &v1alpha1.ClusterRing{}
	if err := l.client.Get(t.Context(), client.ObjectKey{Name: l.ring}, clusterRing); err != nil {
		t.Fatal(err)
	}
	for _, h := range clusterRing.Status.Holdings {
		if h.Shard == "b" && h.Holder != "b_2" {
			t.Errorf("recorded: %+v", h)
		}
	}
}

func TestSlotIsReleasedAfterWorkEnds(t *testing.T) {
	l := newFixture(t)
	a := l.start("a", "1")
	l.awaitDivided("a")
	var leaves []func()
	for n := range slot.Count {
		leave, ok := a.Enter(namespaceOf(n))
		if !ok {
			t.Fatalf("Enter() = false in slot %d of a, want true", n)
		}
		leaves = append(leaves, leave)
	}
	var given atomic.Int64
	a.OnRelease(func(slots slot.Set) { given.Add(int64(slots.Len())) })
	b := l.start("b", "1")
	for a.SlotCount() == slot.Count {
		<-time.After(5 * time.Millisecond) // until a begins no new work in the slots that b should have
	}
	for range 5 {
		l.awaitRebalance("b")
	}
	if b.SlotCount() > 0 {
		t.Errorf("b has %d slots while a works in all, want 0", b.SlotCount())
	}
	if n := given.Load(); n > 0 {
		t.Errorf("OnRelease called with %d slots during work in all, want none", n)
	}
	for _, leave := range leaves {
		leave()
	}
	l.awaitDivided("a", "b")
	if n := int(given.Load()); n != b.SlotCount() {
		t.Errorf("OnRelease called with %d slots, want the %d of b", n, b.SlotCount())
	}
}

// counter counts the keys that it receives.
type counter struct {
	mu   sync.Mutex
	seen map[string]int
}

func (c *counter) Reconcile(_ context.Context, key string) (reconcile.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[key]++
	return reconcile.Result{}, nil
}

func TestForeignKeysWaitUntilSlotIsTaken(t *testing.T) {
	l := newFixture(t)
	a := l.start("a", "1")
	l.awaitDivided("a")
	b := l.start("b", "1")
	l.awaitDivided("a", "b")
	namespace := func(key string) string { ns, _, _ := strings.Cut(key, "/"); return ns }
	inner, foreign := &counter{seen: map[string]int{}}, &counter{seen: map[string]int{}}
	gate := &ownership.Gate[string]{TypedReconciler: inner, Slots: b.Slots, Namespace: namespace, OnForeignKey: foreign.Reconcile}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	if err := gate.Source().Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for n := range slot.Count {
			if _, err := gate.Reconcile(t.Context(), namespaceOf(n)+"/web"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(inner.seen) != b.SlotCount() || len(foreign.seen) != a.SlotCount() {
		t.Errorf("b works on %d with %d slots, and leaves %d with %d", len(inner.seen), b.SlotCount(), len(foreign.seen), a.SlotCount())
	}
	waiting := len(foreign.seen)
	a.stop()
	l.set("a", v1alpha1.ShardDead)
	l.awaitDivided("b")
	for range waiting {
		key, _ := queue.Get()
		if _, err := gate.Reconcile(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		queue.Done(key)
	}
	if len(inner.seen) != slot.Count || queue.Len() > 0 {
		t.Errorf("b has worked on %d of %d, and %d are left", len(inner.seen), slot.Count, queue.Len())
	}
	alone := &ownership.Gate[string]{TypedReconciler: inner, Namespace: namespace}
	if err := alone.Source().Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	if _, err := alone.Reconcile(t.Context(), "any/web"); err != nil || inner.seen["any/web"] != 1 {
		t.Errorf("without slots: %v, %d times", err, inner.seen["any/web"])
	}
}
