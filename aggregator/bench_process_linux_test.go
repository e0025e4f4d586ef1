package aggregator

import (
	"flag"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/largecluster"
	"github.com/breakwater-k8s/breakwater/e2e/harness/measure"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

var (
	processPods       = flag.Int("pods", 100_000, "most pods that BenchmarkAggregator makes on a real apiserver")
	processProtectors = flag.Int("protectors", 10_000, "most protectors that it makes, and so many applications")
	processLoad       = flag.Duration("load", 30*time.Second, "how long it makes pod events, for each load")
)

// stableFor is how long the memory of a process must have stayed the same.
const stableFor = 20 * time.Second

// BenchmarkAggregator runs the program with a real API server, first with increasing numbers of pods, then of
// protectors. It reports the memory that the kernel accounts to it, which a container's limit applies to. With the
// whole crowd it restarts the API server, so that the program lists all pods again while it holds the known ones. At
// the end pods change continuously.
func BenchmarkAggregator(b *testing.B) {
	l := newBenchFixture(b)
	for _, pods := range measure.UpTo(*processPods, 0, 1000, 10_000, 100_000) {
		l.step(b, pods, largecluster.ReplicaSets, func(r *run) {
			if pods == *processPods {
				r.Run("relist", func(b *testing.B) { r.forBenchmark(b).relist() })
			}
		})
	}
	for _, protectors := range measure.UpTo(*processProtectors, 10, 100, 10_000) {
		l.step(b, *processPods, protectors, func(*run) {})
	}
	l.loads(b, *processPods, *processProtectors)
}

// step runs the program with that many pods and protectors, and then calls more.
func (l *benchFixture) step(b *testing.B, pods, protectors int, more func(*run)) {
	b.Run(fmt.Sprintf("pods=%d/protectors=%d", pods, protectors), func(b *testing.B) {
		in := l.forBenchmark(b)
		in.createPods(pods)
		in.createProtectors(protectors)
		r := in.run()
		r.reportStart(pods, protectors)
		more(r)
		r.Stop()
	})
}

// reportStart reports the cost of starting with that many pods and protectors.
func (r *run) reportStart(pods, protectors int) {
	after, peak := r.StableMemory(stableFor), r.Memory("VmHWM")
	if pods == 0 {
		r.podless = after
	}
	r.Run("start", func(b *testing.B) {
		b.ReportMetric(r.first.Seconds(), "first-aggregation-s")
		b.ReportMetric(r.starting.Seconds(), "first-aggregation-processor-s")
		b.ReportMetric(after, "aggregator-MiB-settled")
		b.ReportMetric(peak, "aggregator-MiB-peak")
		if pods > 0 && protectors == largecluster.ReplicaSets && r.podless > 0 {
			b.ReportMetric((after-r.podless)*(1<<20)/float64(pods), "B/pod")
		}
		b.ReportMetric(0, "ns/op")
	})
}

// benchFixture is the environment of the program.
type benchFixture struct {
	*testing.B
	*shared
}

// shared is the state that all steps share.
type shared struct {
	core      client.Client
	namespace string // of the Leases
	program   string
	runs      int
	// pods is the number of pods of the crowd, protectors that of the first applications with a protector, and
	// applications that of applications with a pod.
	pods, protectors, applications int
	// podless is the memory without pods.
	podless float64
}

const benchCell = "crowd"

func newBenchFixture(b *testing.B) *benchFixture {
	b.Helper()
	l := &benchFixture{b, &shared{namespace: testplane.Namespace(b), program: measure.Build(b)}}
	var err error
	l.core, err = client.New(testplane.Config(b), client.Options{Scheme: clusters.Scheme()})
	l.check(err)
	l.check(l.core.Create(b.Context(), &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: benchCell}}))
	l.makeNamespaces()
	return l
}

// forBenchmark returns the same laboratory for a sub-benchmark.
func (l *benchFixture) forBenchmark(b *testing.B) *benchFixture { return &benchFixture{b, l.shared} }

func (l *benchFixture) check(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// run is a run of the program.
type run struct {
	*benchFixture
	*measure.Process
	identity string
	// first is the time from the start until all protectors were written; starting is the CPU time used for it.
	first, starting time.Duration
}

// forBenchmark returns the same run for a sub-benchmark.
func (r *run) forBenchmark(b *testing.B) *run {
	process := *r.Process
	process.TB = b
	return &run{benchFixture: r.benchFixture.forBenchmark(b), Process: &process, identity: r.identity}
}

// run starts the program and returns when it has written all protectors. No pod may be missing.
func (l *benchFixture) run() *run {
	l.Helper()
	return l.runOn(testplane.Kubeconfig(l), l.pods)
}

// runOn is run with that cell, which has that many pods of the crowd.
func (l *benchFixture) runOn(cell string, pods int) *run {
	l.Helper()
	l.runs++
	identity := fmt.Sprint("run-", l.runs)
	r := &run{benchFixture: l, identity: identity, Process: measure.Start(l, l.program, "aggregator", "--cell="+benchCell,
		"--core-kubeconfig="+testplane.Kubeconfig(l), "--kubeconfig="+cell, "--identity="+identity,
		"--leader-election-namespace="+l.namespace)}
	// Listing all protectors is expensive, and would be charged to the program. So would frequent reads of its metrics, which take 2 ms.
	r.AwaitReady()
	r.Await(250*time.Millisecond, func() bool { return r.writes() >= float64(l.protectors) }, func() string {
		return fmt.Sprintf("%v protectors are written, of %d", r.writes(), l.protectors)
	})
	r.first, r.starting = time.Since(r.Began), r.CPUTime()
	r.await(l.coveredPods(pods))
	return r
}

func (r *run) writes() float64 {
	return r.Metric("breakwater_aggregator_writes_total", `result="written"`)
}

// await returns when this run has written all protectors, with that many pods.
func (r *run) await(pods int) {
	r.benchFixture.Helper()
	written, counted := 0, 0
	var err error
	r.Await(time.Second, func() bool {
		protectors := &v1alpha1.PodProtectorList{}
		err = r.core.List(r.benchFixture.Context(), protectors)
		written, counted = 0, 0
		for i := range protectors.Items {
			if cell := quota.CellOf(&protectors.Items[i], benchCell); cell != nil && cell.Aggregation.Holder == r.identity {
				written, counted = written+1, counted+int(cell.Aggregation.TotalReplicas)
			}
		}
		return written == r.protectors && counted == pods
	}, func() string {
		return fmt.Sprintf("%d protectors are written with %d pods, want %d with %d (%v)", written, counted, r.protectors, pods, err)
	})
}

// relist makes the program list all pods again, by restarting the API server, which then has no history. A pod that is
// created afterwards is counted after that list.
func (r *run) relist() {
	r.benchFixture.Helper()
	r.ResetPeakMemory()
	testplane.RestartAPIServer(r.benchFixture)
	p := largecluster.Pod(r.pods)
	r.check(r.core.Create(r.benchFixture.Context(), p))
	r.await(r.coveredPods(r.pods) + 1)
	now := int64(0)
	r.check(r.core.Delete(r.benchFixture.Context(), p, &client.DeleteOptions{GracePeriodSeconds: &now}))
	r.await(r.coveredPods(r.pods))
	r.ReportMetric(r.Memory("VmHWM"), "relist-MiB-peak")
	r.ReportMetric(0, "ns/op")
}
