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
	// ringLabel is a label of namespaces. Its value is the name of the ring to which the ConfigMaps of the namespace belong.
	ringLabel = "e2e.breakwater.dev/ring"
	// leaseSeconds is the time for which a shard may work after it renewed its Lease. After twice that time, other shards get its objects. A
	// shard that gets no CPU for so long must exit. So tests, which run beside others, use a longer time than benchmarks.
	leaseSeconds, benchmarkLeaseSeconds = 12, 3
	clients                             = 16
	// waitTimeout bounds each wait for a condition.
	waitTimeout = 5 * time.Minute
)

// fixture is a ring of ConfigMaps, with its sharders and shards as processes.
type fixture struct {
	testing.TB
	client.Client
	ring      *v1alpha1.ClusterRing
	processes *install.Processes
	recorder  *visitRecorder
	objects   *objects
	// breakwater and shard are the paths of programs.
	breakwater, shard string
}

// newFixture creates a ring and runs sharders for it. change may be nil.
func newFixture(t testing.TB, namespaces int, change func(*v1alpha1.ClusterRingSpec)) *fixture {
	t.Helper()
	l := newBareFixture(t)
	l.createLeaseNamespace()
	folder := t.TempDir()
	l.breakwater = l.buildProgram(folder, "breakwater", binaries.Breakwater)
	l.shard = l.buildProgram(folder, "shard", "github.com/breakwater-k8s/breakwater/e2e/rings/shard")
	l.processes = install.NewProcesses(folder, 10*time.Second)
	t.Cleanup(l.processes.End)
	sharders, err := l.processes.StartSharders(t.Context(), l.breakwater, testplane.Kubeconfig(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sharders.Close)
	l.createRing(change)
	l.objects = newObjects(t, namespaces, l.ring.Name)
	return l
}

func newBareFixture(t testing.TB) *fixture {
	t.Helper()
	return &fixture{TB: t, Client: testplane.Client(t), recorder: newRecorder(t)}
}

// createLeaseNamespace creates the namespace of the Leases. When the test ends, it deletes the Leases of all shards, so that shards of the same
// name in the next test do not find them.
func (l *fixture) createLeaseNamespace() {
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

func (l *fixture) buildProgram(folder, name, program string) (path string) {
	l.Helper()
	path = filepath.Join(folder, name)
	if err := binaries.Build(l.Context(), path, program); err != nil {
		l.Fatal(err)
	}
	return path
}

func (l *fixture) createRing(change func(*v1alpha1.ClusterRingSpec)) {
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
	l.waitUntil("the ring is ready", func() (bool, string) {
		r := l.getRing()
		return meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionReady) && r.Status.ObservedGeneration == r.Generation, l.ringState()
	})
}

func (l *fixture) getRing() *v1alpha1.ClusterRing {
	l.Helper()
	r := &v1alpha1.ClusterRing{}
	if err := l.Get(l.Context(), client.ObjectKeyFromObject(l.ring), r); err != nil {
		l.Fatal(err)
	}
	return r
}

// ringState returns the status of the ring as text.
func (l *fixture) ringState() string {
	l.Helper()
	s := l.getRing().Status
	text := fmt.Sprintf("%d of %d shards available, %d assigned, %d draining, %d unassigned, members %v",
		s.AvailableShards, s.Shards, s.Assigned, s.Draining, s.Unassigned, s.Members)
	for _, c := range s.Conditions {
		text += fmt.Sprintf("\n%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return text
}

// waitUntil waits until a condition is true, and fails the test if a component exits.
func (l *fixture) waitUntil(what string, condition func() (bool, string)) {
	l.Helper()
	timer, ticker := time.NewTimer(waitTimeout), time.NewTicker(200*time.Millisecond)
	defer timer.Stop()
	defer ticker.Stop()
	for {
		so, state := condition()
		if so {
			return
		}
		select {
		case <-ticker.C:
		case err := <-l.processes.Died():
			l.Fatalf("%s: %v", what, err)
		case <-timer.C:
			l.Fatalf("not fulfilled after %s: %s; %s", waitTimeout, what, state)
		}
	}
}

// startShard starts a shard, and returns when it has joined the ring.
func (l *fixture) startShard(name string, arguments ...string) {
	l.Helper()
	arguments = append([]string{"--kubeconfig=" + testplane.Kubeconfig(l), "--ring=" + l.ring.Name, "--shard=" + name,
		"--recorder=" + l.recorder.server.URL}, arguments...)
	if err := l.processes.Start(l.Context(), name, l.shard, arguments...); err != nil {
		l.Fatal(err)
	}
}

// killShard kills a shard.
func (l *fixture) killShard(name string) {
	l.Helper()
	if err := l.processes.Kill(name); err != nil {
		l.Fatal(err)
	}
	l.recorder.endVisitsOf(name)
}

// freezeShard pauses a shard at any point of its work. When the returned function resumes it, the shard must exit by itself.
func (l *fixture) freezeShard(name string) (resume func()) {
	l.Helper()
	ended, err := l.processes.ExpectExit(name)
	if err == nil {
		err = l.processes.Freeze(name)
	}
	if err != nil {
		l.Fatal(err)
	}
	l.recorder.recordFrozen(name, false)
	return func() {
		l.Helper()
		l.recorder.recordFrozen(name, true)
		if err := l.processes.Thaw(name); err != nil {
			l.Fatal(err)
		}
		l.waitUntil(name+" exited because it lost its Lease", func() (bool, string) {
			select {
			case <-ended:
				return true, ""
			default:
				return false, "it runs"
			}
		})
	}
}

// countByShard returns the number of objects of each shard, by their labels. The key "" has the unassigned objects.
func (l *fixture) countByShard() map[string]int {
	l.Helper()
	all := map[string]int{}
	for _, shard := range l.shardOfEach() {
		all[shard]++
	}
	return all
}

// shardOfEach returns the shard of each object, from the labels in the API server.
func (l *fixture) shardOfEach() map[string]string {
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

// isBalanced reports whether the sharder has no work left, and has counted the objects since the last change of its shards.
func (l *fixture) isBalanced() bool {
	l.Helper()
	return meta.IsStatusConditionTrue(l.getRing().Status.Conditions, v1alpha1.ConditionBalanced)
}

type object = runtime.Object

// waitForBalance waits until all objects belong to the given shards, and each was processed in its newest state. No client may change objects
// meanwhile.
func (l *fixture) waitForBalance(shards ...string) map[string]int {
	l.Helper()
	turns, placed := l.objects.snapshot(), map[string]int{}
	l.waitUntil(fmt.Sprintf("all %d objects are with %v", len(turns), shards), func() (bool, string) {
		if n, one := l.recorder.countOutdated(turns); n > 0 { // only after that the test reads all objects
			return false, fmt.Sprintf("%d of them, such as %s, were not processed in their newest state; %s", n, one, l.ringState())
		}
		placed = l.countByShard()
		for _, shard := range shards {
			if placed[shard] == 0 {
				return false, fmt.Sprintf("%v; %s", placed, l.ringState())
			}
		}
		return len(placed) == len(shards), fmt.Sprintf("%v; %s", placed, l.ringState())
	})
	return placed
}
