package sharder

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// passes returns Passes for a world.
func (w *simulatedCluster) passes() *PassReconciler {
	w.metrics = prometheus.NewRegistry()
	metrics := NewMetrics(w.metrics)
	tempo := defaultTiming()
	tempo.page, tempo.writers, tempo.requestLifetime = 4, 1, w.linger
	return &PassReconciler{
		getRing: func(context.Context, string) (*v1alpha1.ClusterRing, error) { return w.ring, nil },
		objects: w, namespaces: simulatedNamespaces{w}, registry: simulatedRegistry{w}, events: &events.FakeRecorder{}, metrics: metrics,
		checkSpec: func(context.Context, *v1alpha1.ClusterRingSpec) (layout, []problem) {
			return layout{mains: []*resource{w.widgets, w.nodes}, controlled: []*resource{w.parts}}, nil
		},
		results: &passResults{byRing: map[string]passResult{}, notify: func(string) {}},
		clock:   clock{tempo, w.now, w.wait}, rings: newRingHistories(),
	}
}

// run lets a sharder work until a condition holds, or for the duration limit.
func (w *simulatedCluster) run(p *PassReconciler, limit time.Duration, until func() bool) error {
	end := w.clock.Add(limit)
	for !until() {
		if w.clock.After(end) {
			return fmt.Errorf("not balanced after %s", limit)
		}
		result, err := p.Reconcile(context.Background(), reconcile.Request{NamespacedName: client.ObjectKey{Name: ringName}})
		if err != nil {
			return err
		}
		// Events in between do not wait for the sharder.
		for left := result.RequeueAfter; left > 0; left -= 200 * time.Millisecond {
			_ = w.wait(context.Background(), min(left, 200*time.Millisecond))
		}
	}
	return nil
}

// misplaced returns the objects that are not with their shards.
func (w *simulatedCluster) misplaced() []string {
	var all []string
	shards, load := simulatedRegistry{w}.Shards(w.ring), ring.Load{Of: map[string]int64{}}
	complain := func(key id, want string) {
		all = append(all, fmt.Sprintf("%s has the placement %+v, want %s", key, w.placement(w.objects[key]), want))
	}
	total := int64(0)
	for _, key := range w.ids() {
		t := w.objects[key]
		at := w.placement(t)
		main := w.resource(key.Resource)
		switch {
		case key.Resource == "parts":
			if want, known := w.expectedPartPlacement(key, t); known && at != want {
				complain(key, fmt.Sprintf("%+v", want))
			}
			continue
		case !w.isMember(key.namespace):
			if (at != ring.Placement{}) {
				complain(key, "nowhere")
			}
			continue
		case len(shards.Shards()) == 0:
			continue
		case w.ring.Spec.MaxLoadPercent == nil:
			if want, _ := shards.Owner(ring.KeyOf(w.ring.Spec.KeyPolicy, main.GroupResource, &t.object)); at != (ring.Placement{Shard: want}) {
				complain(key, want)
			}
		default:
			if !shards.IsAvailable(at.Shard) || at.Draining {
				complain(key, "a shard")
			}
		}
		total++
		load.Of[at.Shard]++
	}
	if limit := ring.Limit(total, len(shards.Shards()), w.ring.Spec.MaxLoadPercent); limit > 0 {
		for shard, n := range load.Of {
			if n > limit {
				all = append(all, fmt.Sprintf("%s has %d objects, want at most %d", shard, n, limit))
			}
		}
	}
	return all
}

// expectedPartPlacement returns the placement that a part should have; false if any placement is acceptable.
func (w *simulatedCluster) expectedPartPlacement(key id, t *simulatedObject) (ring.Placement, bool) {
	owner := metav1.GetControllerOfNoCopy(&t.object)
	if owner == nil {
		return ring.Placement{}, true
	}
	c := w.controller(t)
	if c == nil {
		return ring.Placement{}, false
	}
	at := w.placement(c)
	if at.Shard == "" && w.isMember(key.namespace) || !(simulatedRegistry{w}).Shards(w.ring).IsAvailable(at.Shard) && at.Shard != "" {
		return ring.Placement{}, false // it waits
	}
	if !w.isMember(key.namespace) {
		return ring.Placement{}, (w.placement(t) != ring.Placement{})
	}
	return ring.Placement{Shard: at.Shard}, true
}

// Under any actions of other clients, no object is taken from a working shard before that has released it. No controlled object moves
// before its controller. No more objects move at once than the ring allows. When all other clients stop, all objects reach their shards.
func TestPassesAreSafeAndTerminate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newSimulatedCluster(rapid.Uint64().Draw(t, "seed"))
		w.onlyShardsAct = true
		switch rapid.IntRange(0, 2).Draw(t, "policy") { // objects that belong together have no bound
		case 1:
			w.ring.Spec.MaxLoadPercent = ptr.To(rapid.Int32Range(101, 150).Draw(t, "percent"))
		case 2:
			w.ring.Spec.KeyPolicy = v1alpha1.KeyPolicyNamespace
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "shards") {
			w.join(fmt.Sprint("s-", i))
		}
		for i := range rapid.IntRange(0, 40).Draw(t, "objects") {
			w.hasWebhook = w.chance(50)
			w.create([]*resource{w.widgets, w.nodes, w.parts}[w.IntN(3)], []string{"in", "also-in", "out"}[w.IntN(3)], fmt.Sprint("o-", i))
			for key := range w.objects {
				if key.Resource == "nodes" && key.namespace != "" { // the arguments of create do not fit
					o := w.objects[key]
					delete(w.objects, key)
					o.Namespace = ""
					w.objects[id{key.GroupResource, "", key.name}] = o
				}
			}
		}
		w.onlyShardsAct, w.hasWebhook, w.peak = false, true, 0
		w.linger = time.Duration(rapid.IntRange(0, 1).Draw(t, "linger")) * time.Minute
		w.ring.Spec.ResyncPeriodSeconds = rapid.SampledFrom([]int32{10, 60}).Draw(t, "resync")
		p := w.passes()
		busy := w.clock.Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "seconds")) * time.Second)
		if err := w.run(p, time.Hour, func() bool { return w.clock.After(busy) }); err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "another leader") {
			p = w.passes()
		}
		w.onlyShardsAct, w.hasWebhook = true, rapid.Bool().Draw(t, "webhook at the end")
		var left []string
		if err := w.run(p, 20*time.Minute, func() bool { left = w.misplaced(); return len(left) == 0 }); err != nil {
			t.Fatalf("%v:\n%s\n%s", err, strings.Join(left, "\n"), w.logBeforeViolation())
		}
		if len(w.violations) > 0 {
			t.Fatalf("%s\n%s", strings.Join(w.violations, "\n"), w.logBeforeViolation())
		}
	})
}

// logBeforeViolation returns the log before the first violation, or before the end.
func (w *simulatedCluster) logBeforeViolation() string {
	end := len(w.log)
	if i := slices.IndexFunc(w.log, func(line string) bool { return strings.Contains(line, "WRONG") }); i >= 0 {
		end = i + 1
	}
	return strings.Join(w.log[max(0, end-60):end], "\n")
}

// A shard that was dead can start again, under the same name, in the middle of a write.
func TestReturningShardKeepsItsObjects(t *testing.T) {
	for claim, test := range map[string]struct {
		// writes is the number of writes of the object before the shard comes back.
		writes int
		takes  bool
	}{
		"before the object is drained": {0, false},
		"after the object is drained":  {1, true},
	} {
		t.Run(claim, func(t *testing.T) {
			w := newSimulatedCluster(1)
			w.onlyShardsAct = true
			w.join("s-0")
			w.create(w.nodes, "", "n")
			p := w.passes()
			if err := w.run(p, time.Minute, func() bool { return len(w.misplaced()) == 0 && w.members["s-0"].state == v1alpha1.ShardReady }); err != nil {
				t.Fatal(err)
			}
			w.join("s-1")
			w.members["s-1"].hangs, w.members["s-0"].hangs = false, true // it releases nothing
			w.members["s-0"].works, w.members["s-0"].state, w.members["s-0"].died = false, v1alpha1.ShardDead, w.clock
			written := 0
			w.beforeWrite = func() {
				if written == test.writes {
					w.join("s-0")
					w.members["s-0"].hangs = true
				}
				written++
			}
			at := func() string { return w.placement(w.objects[id{w.nodes.GroupResource, "", "n"}]).Shard }
			end := w.clock.Add(20 * time.Second)
			if err := w.run(p, time.Minute, func() bool { return at() == "s-1" || w.clock.After(end) }); err != nil {
				t.Fatal(err)
			}
			if taken := at() == "s-1"; taken != test.takes || len(w.violations) > 0 {
				t.Errorf("object was taken: %t\n%s", taken, w.logBeforeViolation())
			}
		})
	}
}

func TestConcurrentMovesAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newSimulatedCluster(rapid.Uint64().Draw(t, "seed"))
		w.onlyShardsAct = true
		w.ring.Spec.MaxConcurrentMoves = rapid.Int32Range(1, 10).Draw(t, "at once")
		w.join("s-0")
		for i := range 60 {
			w.create(w.widgets, "in", fmt.Sprint("w-", i))
		}
		p := w.passes()
		rest := func() bool { return len(w.misplaced()) == 0 }
		if err := w.run(p, 10*time.Minute, rest); err != nil {
			t.Fatal(err, w.logBeforeViolation())
		}
		w.join("s-1")
		w.members["s-0"].hangs, w.members["s-1"].hangs = false, false
		w.clock = w.clock.Add(time.Second)
		w.roll("s-1", w.members["s-1"])
		if err := w.run(p, 10*time.Minute, rest); err != nil {
			t.Fatal(err, w.misplaced(), w.logBeforeViolation())
		}
		if w.peak == 0 || w.peak > int(w.ring.Spec.MaxConcurrentMoves) {
			t.Fatalf("got %d concurrent moves, want at most %d\n%s", w.peak, w.ring.Spec.MaxConcurrentMoves, w.logBeforeViolation())
		}
		if !slices.Equal(w.violations, nil) {
			t.Fatal(w.violations)
		}
	})
}
