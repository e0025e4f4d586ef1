package rings_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/binaries"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestMain(m *testing.M) { testplane.Main(m) }

const (
	// ringLabel on a namespace, with the name of a ring, puts its ConfigMaps into that.
	ringLabel = "e2e.breakwater.dev/ring"
	// leaseSeconds is how long a shard may work without a renewal; twice as long after its end its objects are others'. A shard that
	// gets no processor for so long ends, as it must: tests, beside which others run, give it longer than benchmarks.
	leaseSeconds, benchmarkLeaseSeconds = 8, 3
	clients                             = 16
	// patience bounds each wait for a condition.
	patience = 5 * time.Minute
)

// lab is a ring of ConfigMaps, with its sharders and shards as processes.
type lab struct {
	testing.TB
	client.Client
	ring      *v1alpha1.ClusterRing
	processes *install.Processes
	recorder  *recorder
	objects   *objects
	// breakwater and shard are programs.
	breakwater, shard string
}

// newLab makes a ring and runs sharders for it. change may be nil.
func newLab(t testing.TB, namespaces int, change func(*v1alpha1.ClusterRingSpec)) *lab {
	t.Helper()
	l := bareLab(t)
	l.furnish()
	folder := t.TempDir()
	l.breakwater = l.build(folder, "breakwater", binaries.Breakwater)
	l.shard = l.build(folder, "shard", "github.com/breakwater-k8s/breakwater/e2e/rings/shard")
	l.processes = install.NewProcesses(folder, 10*time.Second)
	t.Cleanup(l.processes.End)
	sharders, err := l.processes.StartSharders(t.Context(), l.breakwater, testplane.Kubeconfig(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sharders.Close)
	l.makeRing(change)
	l.objects = newObjects(t, namespaces, l.ring.Name)
	return l
}

func bareLab(t testing.TB) *lab {
	t.Helper()
	return &lab{TB: t, Client: testplane.Client(t), recorder: newRecorder(t)}
}

// furnish makes the namespace of Leases, which no shard leaves behind for one of the same name in the next lab.
func (l *lab) furnish() {
	l.Helper()
	l.Cleanup(func() {
		if err := l.DeleteAllOf(context.Background(), &coordinationv1.Lease{}, client.InNamespace(install.SystemNamespace), client.HasLabels{v1alpha1.LabelRing}); err != nil {
			l.Error(err)
		}
	})
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: install.SystemNamespace}}
	if err := l.Create(l.Context(), system); err != nil && !apierrors.IsAlreadyExists(err) {
		l.Fatal(err)
	}
}

func (l *lab) build(folder, name, program string) (path string) {
	l.Helper()
	path = filepath.Join(folder, name)
	if err := binaries.Build(l.Context(), path, program); err != nil {
		l.Fatal(err)
	}
	return path
}

func (l *lab) makeRing(change func(*v1alpha1.ClusterRingSpec)) {
	l.Helper()
	name := strings.ToLower(strings.NewReplacer("Test", "", "Benchmark", "", "/", "-", "=", "-").Replace(l.Name()))
	l.ring = &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: name[:min(len(name), 50)]}, Spec: v1alpha1.ClusterRingSpec{
		Resources:            []v1alpha1.RingResource{{GroupResource: v1alpha1.GroupResource{Resource: "configmaps"}}},
		LeaseDurationSeconds: leaseSeconds, MaxConcurrentMoves: 500,
	}}
	l.ring.Spec.NamespaceSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{ringLabel: l.ring.Name}}
	if _, ok := l.TB.(*testing.B); ok {
		l.ring.Spec.LeaseDurationSeconds = benchmarkLeaseSeconds
	}
	if change != nil {
		change(&l.ring.Spec)
	}
	if err := l.Create(l.Context(), l.ring); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = l.Delete(context.Background(), l.ring) })
	l.await("the ring is ready", func() (bool, string) {
		r := l.get()
		return meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionReady) && r.Status.ObservedGeneration == r.Generation, l.state()
	})
}

func (l *lab) get() *v1alpha1.ClusterRing {
	l.Helper()
	r := &v1alpha1.ClusterRing{}
	if err := l.Get(l.Context(), client.ObjectKeyFromObject(l.ring), r); err != nil {
		l.Fatal(err)
	}
	return r
}

// state is what the ring says of itself.
func (l *lab) state() string {
	l.Helper()
	s := l.get().Status
	text := fmt.Sprintf("%d of %d shards available, %d assigned, %d draining, %d unassigned, members %v",
		s.AvailableShards, s.Shards, s.Assigned, s.Draining, s.Unassigned, s.Members)
	for _, c := range s.Conditions {
		text += fmt.Sprintf("\n%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return text
}

// await waits until something is so, and fails when a component dies.
func (l *lab) await(what string, is func() (bool, string)) {
	l.Helper()
	until, look := time.NewTimer(patience), time.NewTicker(200*time.Millisecond)
	defer until.Stop()
	defer look.Stop()
	for {
		so, state := is()
		if so {
			return
		}
		select {
		case <-look.C:
		case err := <-l.processes.Died():
			l.Fatalf("%s: %v", what, err)
		case <-until.C:
			l.Fatalf("not so after %s: %s; %s", patience, what, state)
		}
	}
}

// start starts a shard, which takes part when this returns.
func (l *lab) start(name string, arguments ...string) {
	l.Helper()
	arguments = append([]string{"--kubeconfig=" + testplane.Kubeconfig(l), "--ring=" + l.ring.Name, "--shard=" + name,
		"--recorder=" + l.recorder.server.URL}, arguments...)
	if err := l.processes.Start(l.Context(), name, l.shard, arguments...); err != nil {
		l.Fatal(err)
	}
}

// kill ends a shard at once.
func (l *lab) kill(name string) {
	l.Helper()
	if err := l.processes.Kill(name); err != nil {
		l.Fatal(err)
	}
	l.recorder.dead(name)
}

// freeze makes a shard stop in the middle of what it does. When it goes on, by what this returns, it must end by itself.
func (l *lab) freeze(name string) (thaw func()) {
	l.Helper()
	ended, err := l.processes.Dismiss(name)
	if err == nil {
		err = l.processes.Freeze(name)
	}
	if err != nil {
		l.Fatal(err)
	}
	l.recorder.freeze(name, false)
	return func() {
		l.Helper()
		l.recorder.freeze(name, true)
		if err := l.processes.Thaw(name); err != nil {
			l.Fatal(err)
		}
		l.await(name+" has ended, since it has lost its Lease", func() (bool, string) {
			select {
			case <-ended:
				return true, ""
			default:
				return false, "it runs"
			}
		})
	}
}

// placed is how many objects each shard has, by their labels; "" are those that nobody has.
func (l *lab) placed() map[string]int {
	l.Helper()
	all := map[string]int{}
	for _, shard := range l.shardOfEach() {
		all[shard]++
	}
	return all
}

// shardOfEach reads the labels of all objects, as the apiserver has them.
func (l *lab) shardOfEach() map[string]string {
	l.Helper()
	all := map[string]string{}
	configMaps := metadata.NewForConfigOrDie(testplane.Config(l)).Resource(corev1.SchemeGroupVersion.WithResource("configmaps"))
	for _, namespace := range l.objects.namespaces {
		list := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (object, error) {
			return configMaps.Namespace(namespace).List(l.Context(), options)
		}))
		if err := list.EachListItem(l.Context(), metav1.ListOptions{}, func(o object) error {
			configMap := o.(*metav1.PartialObjectMetadata)
			all[configMap.Namespace+"/"+configMap.Name] = configMap.Labels[v1alpha1.LabelShard(l.ring.Name)]
			return nil
		}); err != nil {
			l.Fatal(err)
		}
	}
	return all
}

// isBalanced tells whether the sharder says that nothing is left to do, and counted objects after its shards were as they are.
func (l *lab) isBalanced() bool {
	l.Helper()
	return meta.IsStatusConditionTrue(l.get().Status.Conditions, v1alpha1.ConditionBalanced)
}

type object = runtime.Object

// awaitBalance waits until all objects are with these shards, and each has been worked on as it is. Nobody changes objects meanwhile.
func (l *lab) awaitBalance(shards ...string) map[string]int {
	l.Helper()
	turns, placed := l.objects.snapshot(), map[string]int{}
	l.await(fmt.Sprintf("all %d objects are with %v", len(turns), shards), func() (bool, string) {
		if n, one := l.recorder.behind(turns); n > 0 { // and to read all objects is left for then
			return false, fmt.Sprintf("%d of them, such as %s, were not worked on as they are; %s", n, one, l.state())
		}
		placed = l.placed()
		for _, shard := range shards {
			if placed[shard] == 0 {
				return false, fmt.Sprintf("%v; %s", placed, l.state())
			}
		}
		return len(placed) == len(shards), fmt.Sprintf("%v; %s", placed, l.state())
	})
	return placed
}
