package snapshot

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"
	"unique"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

type uniqueName = unique.Handle[string]

func handle(text string) uniqueName { return unique.Make(text) }

const (
	zoneLabel = "topology.kubernetes.io/zone"
	rackLabel = "example.com/rack"
)

// nodeModel is a cell's pods and nodes, the specs of its protectors, and a watch of nodes that does not lag.
type nodeModel struct {
	clock   time.Time
	version int
	pods    map[types.UID]*corev1.Pod
	// seen is when each pod was last seen alive.
	seen   map[types.UID]time.Time
	nodes  map[string]map[string]string
	specs  map[types.NamespacedName]*v1alpha1.PodProtectorSpec
	denied bool

	snapshot *Snapshot
	// watch is the running watch; nil if there is none. asks is the number of labels ever added when it began.
	watch    *nodeStore
	requests int
	changed  map[types.NamespacedName]bool
}

func newNodeModel(t *rapid.T) *nodeModel {
	w := &nodeModel{
		clock: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), version: 1, pods: map[types.UID]*corev1.Pod{}, nodes: map[string]map[string]string{}, seen: map[types.UID]time.Time{},
		specs: map[types.NamespacedName]*v1alpha1.PodProtectorSpec{}, changed: map[types.NamespacedName]bool{},
	}
	w.snapshot = New(func(key types.NamespacedName, _ time.Duration) { w.changed[key] = true }, func(err error) { t.Fatal(err) },
		func() time.Time { return w.clock }, func() time.Time { return w.clock })
	if err := w.snapshot.Replace(nil, w.next()); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *nodeModel) next() string { w.version++; return strconv.Itoa(w.version) }

func (w *nodeModel) node(name string) *metav1.PartialObjectMetadata {
	labels := maps.Clone(w.nodes[name])
	labels["example.com/other"] = name
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// read lists the nodes as a new watch does, if labels are in use that the last one does not read.
func (w *nodeModel) read(t *rapid.T) {
	labels, asks := w.snapshot.nodes.usedLabels()
	switch {
	case len(labels) == 0:
		w.watch = nil
		return
	case w.denied || w.watch != nil && w.requests == asks:
		return
	}
	w.watch, w.requests = &nodeStore{nodes: w.snapshot.nodes, labels: labels}, asks
	w.list(t)
}

func (w *nodeModel) list(t *rapid.T) {
	var list []any
	for name := range w.nodes {
		stripped, err := w.watch.Transformer()(w.node(name))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, stripped)
	}
	if err := w.watch.Replace(list, "1"); err != nil {
		t.Fatal(err)
	}
}

// check is called at every step: the counts equal those of a linear scan.
func (w *nodeModel) check(t *rapid.T) {
	for key, spec := range w.specs {
		want := map[string]int32{}
		var unknown, counted int32
		for _, p := range w.pods {
			health := podhealth.Of(p, spec.MinReadySeconds, w.clock)
			health.Available = health.Available && !w.seen[p.UID].Before(health.AvailableSince)
			if p.Namespace != key.Namespace || p.Labels["app"] != spec.Selector.MatchLabels["app"] || !health.Counted(spec.Criterion) {
				continue
			}
			counted++
			value, has := w.nodes[p.Spec.NodeName][spec.Spread.TopologyKey]
			if has && !w.denied && w.watch != nil && slices.Contains(w.watch.labels, spec.Spread.TopologyKey) {
				want[value]++
			} else {
				unknown++
			}
		}
		c, ok := w.snapshot.Count(key, spec, none, nil, nil)
		if !ok {
			t.Fatalf("%s is not counted", key)
		}
		got := c.Aggregation.Spread
		if spec.Spread.TopologyKey == v1alpha1.TopologyKeyCell {
			if got != nil {
				t.Fatalf("%s: %+v, and the cell is the domain", key, got)
			}
			continue
		}
		listed := map[string]int32{}
		for _, d := range got.Domains {
			listed[d.Name] = d.Counted
		}
		if diff := cmp.Diff(want, listed); diff != "" || got.Unknown != unknown || got.TopologyKey != spec.Spread.TopologyKey || c.Aggregation.CountedReplicas != counted {
			t.Fatalf("%s counts %+v of %d, want %d unknown of %d, and domains (-want +got):\n%s",
				key, got, c.Aggregation.CountedReplicas, unknown, counted, diff)
		}
	}
}

// on returns the protectors that have pods on a node.
func (w *nodeModel) on(node string) (all []types.NamespacedName) {
	for key, spec := range w.specs {
		for _, p := range w.pods {
			if p.Namespace == key.Namespace && p.Labels["app"] == spec.Selector.MatchLabels["app"] && p.Spec.NodeName == node {
				all = append(all, key)
				break
			}
		}
	}
	return all
}

func (w *nodeModel) requestLabel(t *rapid.T, key types.NamespacedName, spec *v1alpha1.PodProtectorSpec) {
	coverage, err := selectors.CountedCoverageOf(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.specs[key] = spec
	w.snapshot.Cover(key, coverage, 0)
	w.snapshot.nodes.requestLabel(key, nodeLabelOf(spec))
	w.read(t)
}

func (w *nodeModel) change() map[string]func(*rapid.T) {
	serial := 0
	nodeName := func(t *rapid.T) string { return fmt.Sprint("node-", rapid.IntRange(0, 4).Draw(t, "node")) }
	return map[string]func(*rapid.T){
		"put a pod": func(t *rapid.T) {
			uid := types.UID(fmt.Sprint(rapid.IntRange(max(serial-6, 0), serial).Draw(t, "pod")))
			node := nodeName(t)
			if old := w.pods[uid]; old == nil {
				serial++
				uid = types.UID(fmt.Sprint(serial))
				if rapid.IntRange(0, 3).Draw(t, "not scheduled") == 0 {
					node = ""
				}
			} else if old.Spec.NodeName != "" {
				node = old.Spec.NodeName
			}
			p := samplePod("web-"+string(uid), string(uid), w.next(), map[string]string{"app": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "app")})
			p.Spec.NodeName = node
			setReady(p, rapid.Bool().Draw(t, "ready"))
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.clock.Add(-time.Duration(rapid.IntRange(0, 20).Draw(t, "ready for")) * time.Second))
			w.pods[uid] = p
			if err := w.snapshot.Update(p.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		},
		"delete a pod": func(t *rapid.T) {
			p := drawPod(t, w.pods, "pod").DeepCopy()
			delete(w.pods, p.UID)
			p.ResourceVersion = w.next()
			if err := w.snapshot.Delete(p); err != nil {
				t.Fatal(err)
			}
		},
		"a live read shows pods alive": func(t *rapid.T) {
			live := LiveRead{Pods: map[quota.UIDHash]LivePod{}}
			for range rapid.IntRange(1, 4).Draw(t, "pods") {
				p := drawPod(t, w.pods, "alive")
				live.Pods[quota.HashUID(p.UID)], w.seen[p.UID] = LivePod{Version: PodVersion(p.ResourceVersion)}, w.clock
			}
			w.snapshot.RecordAlive(&live, w.snapshot.SinceCreation())
		},
		"put a node": func(t *rapid.T) {
			name, labels := nodeName(t), map[string]string{}
			for _, label := range []string{zoneLabel, rackLabel} {
				if value := rapid.SampledFrom([]string{"a", "b", "c", "", "none"}).Draw(t, label); value != "none" {
					labels[label] = value
				}
			}
			before := w.nodes[name]
			w.nodes[name] = labels
			clear(w.changed)
			if w.watch != nil && !w.denied {
				if err := w.watch.Update(w.node(name)); err != nil {
					t.Fatal(err)
				}
				w.wantNotified(t, name, before)
			}
		},
		"delete a node": func(t *rapid.T) {
			name := nodeName(t)
			before, exists := w.nodes[name]
			if !exists {
				t.Skip("no such node")
			}
			node := w.node(name)
			delete(w.nodes, name)
			clear(w.changed)
			if w.watch != nil && !w.denied {
				if err := w.watch.Delete(node); err != nil {
					t.Fatal(err)
				}
				w.wantNotified(t, name, before)
			}
		},
		"the watch of nodes breaks, and all are listed": func(t *rapid.T) {
			if w.watch == nil || w.denied {
				t.Skip("no watch")
			}
			before := maps.Clone(w.nodes)
			for _, name := range slices.Sorted(maps.Keys(before)) {
				switch rapid.SampledFrom([]string{"stays", "is gone", "is another"}).Draw(t, name) {
				case "is gone":
					delete(w.nodes, name)
				case "is another":
					w.nodes[name] = map[string]string{zoneLabel: "c"}
				}
			}
			clear(w.changed)
			w.list(t)
			for name := range before {
				w.wantNotified(t, name, before[name])
			}
		},
		"nodes may not be read any more": func(*rapid.T) {
			if w.watch != nil {
				w.denied = true
				w.snapshot.nodes.recordFailure("denied", true)
			}
		},
		"they may": func(t *rapid.T) {
			if w.denied {
				w.denied = false
				w.snapshot.nodes.recordSuccess()
				if w.watch != nil {
					w.list(t)
				}
				w.read(t)
			}
		},
		"time passes": func(t *rapid.T) {
			w.clock = w.clock.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "seconds")) * time.Second)
		},
		"protect": func(t *rapid.T) {
			key := types.NamespacedName{Namespace: "default", Name: fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "name"))}
			w.requestLabel(t, key, &v1alpha1.PodProtectorSpec{
				Criterion: drawCriterion(t), MinReadySeconds: rapid.Int32Range(0, 15).Draw(t, "minReadySeconds"),
				Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "app")}},
				Spread:   &v1alpha1.Spread{TopologyKey: rapid.SampledFrom([]string{zoneLabel, rackLabel, v1alpha1.TopologyKeyCell}).Draw(t, "key")},
			})
		},
		"do not": func(t *rapid.T) {
			for key := range w.specs {
				delete(w.specs, key)
				w.snapshot.Uncover(key)
				w.read(t)
				return
			}
		},
		"": func(t *rapid.T) { w.check(t) },
	}
}

// wantNotified fails unless every protector with pods on a node whose domain changed was reported.
func (w *nodeModel) wantNotified(t *rapid.T, name string, before map[string]string) {
	for _, key := range w.on(name) {
		label := w.specs[key].Spread.TopologyKey
		was, had := before[label]
		is, has := w.nodes[name][label]
		if (was != is || had != has) && !w.changed[key] {
			t.Fatalf("%s was not notified of changed labels of node %s", key, name)
		}
	}
}

// The domains of a snapshot equal those of a linear scan of pods and nodes, through any change of pods, nodes and protectors. It
// stores nothing of nodes that no protector uses.
func TestDomainsMatchLinearScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newNodeModel(t)
		change := w.change()
		for range 4 {
			change["put a pod"](t)
			change["put a node"](t)
		}
		change["protect"](t)
		t.Repeat(change)
		for key := range w.specs {
			w.snapshot.Uncover(key)
		}
		if n := w.snapshot.nodes; len(n.labels)+len(n.labelOf) != 0 {
			t.Fatalf("labels %v and %v kept without users, want none", n.labels, n.labelOf)
		}
	})
}

// A status holds 64 domains. The rest are added up, and the same pods always give the same status.
func TestManyDomainsAreSummed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.SampledFrom([]int{0, 1, v1alpha1.MostDomains - 1, v1alpha1.MostDomains, v1alpha1.MostDomains + 1, 200}).Draw(t, "domains")
		pods, total := map[string]int32{}, int32(0)
		for i := range number {
			pods[fmt.Sprint("node-", i)] = rapid.Int32Range(1, 4).Draw(t, "pods")
			total += pods[fmt.Sprint("node-", i)]
		}
		d := CellDomains(zoneLabel, pods, 3, "")
		if diff := cmp.Diff(d, CellDomains(zoneLabel, maps.Clone(pods), 3, "")); diff != "" {
			t.Fatalf("cellDomains() of the same pods differs (-first +second):\n%s", diff)
		}
		sum, least := int32(0), int32(100)
		for i, domain := range d.Domains {
			sum += domain.Counted
			least = min(least, domain.Counted)
			if domain.Counted != pods[domain.Name] || i > 0 && d.Domains[i-1].Name >= domain.Name {
				t.Fatalf("domain %d is %+v of %v", i, domain, pods)
			}
			delete(pods, domain.Name)
		}
		var others v1alpha1.OtherDomains
		if d.Others != nil {
			others = *d.Others
		}
		largest := int32(0)
		for _, rest := range pods {
			largest = max(largest, rest)
		}
		want := v1alpha1.OtherDomains{Domains: int32(len(pods)), Counted: total - sum, Largest: largest}
		if others != want || len(d.Domains) > v1alpha1.MostDomains || len(pods) > 0 && least < largest || len(pods) > 0 && len(d.Domains) < v1alpha1.MostDomains {
			t.Fatalf("%d domains, the least of %d, and others %+v, want %+v", len(d.Domains), least, others, want)
		}
	})
}

// Nodes that cannot be read never delay a count for more than a moment, and nodes that were read stay known during a partition.
func TestNodesThatCannotBeRead(t *testing.T) {
	key := types.NamespacedName{Namespace: "default", Name: "web"}
	clock := time.Now()
	var notified []types.NamespacedName
	n := newNodes(func([]types.NamespacedName, map[uniqueName]bool) {}, func(p types.NamespacedName) { notified = append(notified, p) }, func() time.Time { return clock })
	s := &nodeStore{nodes: n, labels: []string{zoneLabel}}
	on := map[uniqueName]int32{handle("node-1"): 2}
	want := func(claim string, known int, problem string, toldOf int) {
		t.Helper()
		d := n.distribution(zoneLabel, on)
		if len(d.Domains) != known || d.Problem != problem || int(d.Unknown) != 2-2*known || len(notified) != toldOf {
			t.Errorf("%s: %+v, notified %d times; want %d domains, problem %q, notified %d times", claim, d, len(notified), known, problem, toldOf)
		}
		notified = nil
	}
	if wait := n.requestLabel(key, zoneLabel); wait != nodesWait {
		t.Errorf("requestLabel() = %s for a new label, want %s", wait, nodesWait)
	}
	clock = clock.Add(nodesWait)
	if wait := n.requestLabel(key, zoneLabel); wait != 0 {
		t.Errorf("requestLabel() = %s without a result, want 0", wait)
	}
	want("without a result", 0, "the nodes of the cell are not read yet", 0)
	n.recordFailure("away", false)
	want("the nodes are unreachable", 0, "away", 1)
	n.recordFailure("away, on another port", false)
	want("the nodes are unreachable again", 0, "away", 0)
	if wait := n.requestLabel(types.NamespacedName{Name: "other"}, rackLabel); wait != 0 {
		t.Errorf("a count waits %s for nodes that could not be read", wait)
	}
	n.releaseLabel(types.NamespacedName{Name: "other"})
	n.recordSuccess()
	if err := s.Replace([]any{&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{zoneLabel: "a"}}}}, "1"); err != nil {
		t.Fatal(err)
	}
	want("they are read", 1, "", 1)
	n.recordFailure("away", false)
	want("a partition", 1, "", 0)
	n.recordFailure("forbidden", true)
	want("the right is withdrawn", 0, "forbidden", 1)
	n.recordFailure("forbidden", true)
	want("it stays withdrawn", 0, "forbidden", 0)
	n.recordFailure("away", false)
	want("and the nodes are unreachable", 0, "forbidden", 0)
	n.recordSuccess()
	want("the right is back", 1, "", 1)
}

// The labels that the protectors of a slot use are dropped with it, even if the protectors were never counted.
func TestReleasedSlotRequestsNoLabels(t *testing.T) {
	n := New(func(types.NamespacedName, time.Duration) {}, func(error) {}, time.Now, time.Now)
	n.KeepOnly(func(slot.Set) {})
	kept, given := types.NamespacedName{Namespace: "kept", Name: "web"}, types.NamespacedName{Namespace: "given", Name: "web"}
	n.nodes.requestLabel(kept, zoneLabel)
	n.nodes.requestLabel(given, rackLabel)
	n.ReleaseSlots(slot.Set{}.With(slot.Of("given")))
	if labels, _ := n.nodes.usedLabels(); !slices.Equal(labels, []string{zoneLabel}) {
		t.Errorf("labels in use %v, want none", labels)
	}
}
