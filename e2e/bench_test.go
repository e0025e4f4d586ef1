package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// benchFixture is a namespace with bare pods in one cell. The pods are protected or exempt.
type benchFixture struct {
	*testing.B
	*e2e.Suite
	namespace string
	cell      storm.Cell
	pods      []string
	// stall is the longest time without an answer in removeAll.
	stall time.Duration
}

// newBenchFixture creates the pods of a run, and a protector unless the webhook shall review them without one.
func newBenchFixture(b *testing.B, pods int, run string) *benchFixture {
	b.Helper()
	labels := map[string]string{}
	if run == "unprotected" {
		labels[v1alpha1.LabelExempt] = "true"
	}
	n := newBenchNamespace(b, labels)
	switch run {
	case "reviewed": // an earlier protector could protect for a while after its deletion
	case "refused":
		n.protect("web", int32(pods+sparePods))
	default:
		n.protect("web", 1)
	}
	n.createPods(pods)
	return n
}

// newBenchNamespace creates a namespace without protectors and pods, with labels in the cell.
func newBenchNamespace(b *testing.B, labels map[string]string) *benchFixture {
	b.Helper()
	n := &benchFixture{B: b, Suite: loopSuite, cell: loopSuite.Cells[0]}
	core := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}
	n.noError(n.Cores[0].Create(b.Context(), core))
	n.namespace = core.Name
	_, err := n.cell.Client.CoreV1().Namespaces().Create(b.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.namespace, Labels: labels}}, metav1.CreateOptions{})
	n.noError(err)
	return n
}

// protect creates a protector of the pods of an application.
func (n *benchFixture) protect(app string, floor int32) {
	n.Helper()
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: app}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": app}}
	p.Spec.MinAvailable = v1alpha1.Pods(floor)
	n.noError(n.Cores[0].Create(n.Context(), p))
}

func (n *benchFixture) noError(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

// defaultGraceSeconds is the grace period of pods that do not set one. With a grace period of 0, the API server reviews a deletion twice.
const defaultGraceSeconds = 30

// sparePods is the number of additional pods that are never removed. They keep the storm above the floor, even when the API server reviews
// a removal twice.
const sparePods = 100

// createPods creates the pods and waits until they are counted.
func (n *benchFixture) createPods(pods int) {
	n.Helper()
	n.deploy("web", pods+sparePods)
	n.waitUntilCounted(pods + sparePods)
	n.pods = n.runningPods(pods + sparePods)[:pods]
}

// deploy creates pods of an application, several at a time.
func (n *benchFixture) deploy(app string, pods int) {
	n.Helper()
	const parts = 4
	var creating errgroup.Group
	for part := range parts {
		a := storm.Application{
			Namespace: n.namespace, Name: app, Instance: fmt.Sprint(part), Pods: (pods + part) / parts, GraceSeconds: []int64{defaultGraceSeconds},
		}
		creating.Go(func() error { return a.DeployBare(n.Context(), []storm.Cell{n.cell}) })
	}
	n.noError(creating.Wait())
}

// runningPods waits until all pods run, because the API server does not call the webhook for a pod without a node.
func (n *benchFixture) runningPods(pods int) (names []string) {
	n.Helper()
	n.waitUntil(func(ctx context.Context) string {
		list, err := n.cell.Client.CoreV1().Pods(n.namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		n.noError(err)
		names = nil
		for _, pod := range list.Items {
			if pod.Status.Phase == corev1.PodRunning {
				names = append(names, pod.Name)
			}
		}
		if len(names) != pods {
			return fmt.Sprintf("%d of %d pods are running", len(names), pods)
		}
		return ""
	})
	return names
}

// waitUntilCounted waits until each protector has this number of available pods.
func (n *benchFixture) waitUntilCounted(pods int) {
	n.Helper()
	n.waitUntil(func(ctx context.Context) string {
		list := &v1alpha1.PodProtectorList{}
		n.noError(n.Cores[0].List(ctx, list, client.InNamespace(n.namespace)))
		for i := range list.Items {
			if summary := list.Items[i].Status.Summary; int(summary.Available) != pods {
				return fmt.Sprintf("pods are not available: %+v", summary)
			}
		}
		return ""
	})
}

// waitUntil waits until problem returns "".
func (n *benchFixture) waitUntil(problem func(ctx context.Context) string) {
	n.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(n.Context(), 100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		last = problem(ctx)
		return last == "", nil
	})
	if err != nil {
		n.Fatal(last)
	}
}

// removeAll removes the pods with the given number of clients. It returns how long each removal took, and how long all of them took
// together.
func (n *benchFixture) removeAll(clients int) (durations []time.Duration, total time.Duration) {
	n.Helper()
	var failed error
	began := time.Now()
	last := began
	n.deleteEach(clients, func(took time.Duration, err error) (more bool) {
		durations, failed = append(durations, took), firstOf(failed, err)
		n.stall, last = max(n.stall, time.Since(last)), time.Now()
		return true
	})
	n.noError(failed)
	return durations, time.Since(began)
}

// deleteEach deletes the pods with the given number of clients, each pod once, in their order. It calls report for each answer, for one at a
// time, until report returns false.
func (n *benchFixture) deleteEach(clients int, report func(took time.Duration, err error) (more bool)) {
	queue := make(chan string, len(n.pods))
	for _, pod := range n.pods {
		queue <- pod
	}
	close(queue)
	var (
		mu      sync.Mutex
		running sync.WaitGroup
	)
	for range clients {
		running.Go(func() {
			for pod := range queue {
				start := time.Now()
				err := n.cell.Client.CoreV1().Pods(n.namespace).Delete(n.Context(), pod, metav1.DeleteOptions{})
				mu.Lock()
				more := report(time.Since(start), err)
				mu.Unlock()
				if !more {
					return
				}
			}
		})
	}
	running.Wait()
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// countWrites counts the writes to the protector until stop is called, which returns the count.
func (n *benchFixture) countWrites() (stop func() int) {
	n.Helper()
	core, err := client.NewWithWatch(n.Federation().Cores()[0].RESTConfig(), client.Options{Scheme: n.Cores[0].Scheme()})
	n.noError(err)
	events, err := core.Watch(n.Context(), &v1alpha1.PodProtectorList{}, client.InNamespace(n.namespace))
	n.noError(err)
	counted := make(chan int)
	go func() {
		writes := 0
		for event := range events.ResultChan() {
			if event.Type == watch.Modified {
				writes++
			}
		}
		counted <- writes
	}()
	return func() int {
		events.Stop()
		return <-counted
	}
}

// waitForNodes waits until the nodes have finished with the removed pods, so that this work does not fall into the next run.
func (n *benchFixture) waitForNodes() {
	n.Helper()
	n.waitUntil(func(ctx context.Context) string {
		list, err := n.cell.Client.CoreV1().Pods(n.namespace).List(ctx, metav1.ListOptions{Limit: sparePods + 1})
		n.noError(err)
		if left := len(list.Items) - sparePods; left > 0 {
			return fmt.Sprintf("%d pods or more were not removed", left)
		}
		return ""
	})
}

// withPausedNodes calls do while the nodes of the cell are paused. A real node takes seconds to stop a container, so it reports the end
// when a storm like this one is over. The process that simulates all nodes does it immediately, on the CPUs that the benchmark measures.
func (n *benchFixture) withPausedNodes(do func()) {
	n.Helper()
	worker, ok := n.Federation().Workers()[0].(federation.Faults) // Cells and workers have the same order
	if !ok {
		n.Fatalf("the backend cannot pause nodes")
	}
	n.noError(worker.Freeze(federation.Kwok))
	defer func() { n.noError(worker.Thaw(federation.Kwok)) }()
	do()
}

// benchmarkRuns are the cases that benchmarks compare: without Breakwater, with a webhook call that does nothing, and with a protector.
var benchmarkRuns = []string{"unprotected", "reviewed", "protected"}

// alternate calls do for each run, and begins with a random one, because the speed of the machine varies over minutes.
func alternate(runs []string, do func(run string)) {
	first := rand.IntN(len(runs))
	for turn := range runs {
		do(runs[(first+turn)%len(runs)])
	}
}

// BenchmarkStorm removes pods of one protector with 64 clients, as fast as possible, in each run in turn. A run takes some seconds: in a
// shorter one, a single garbage collection of an API server would decide the result.
func BenchmarkStorm(b *testing.B) {
	const clients, pods = 64, 2000
	u, writes, stall := usage{}, 0, time.Duration(0)
	for b.Loop() {
		alternate(benchmarkRuns, func(run string) {
			n := newBenchFixture(b, pods, run)
			stop := func() int { return 0 }
			if run == "protected" {
				stop = n.countWrites()
			}
			n.withPausedNodes(func() {
				u.measure(run, pods, func() time.Duration { _, total := n.removeAll(clients); return total })
				writes += stop()
			})
			if run == "protected" {
				stall = max(stall, n.stall)
			}
			n.waitForNodes()
		})
	}
	u.report(b)
	b.ReportMetric(u.over("protected", "unprotected"), "ratio")
	b.ReportMetric(u.over("reviewed", "unprotected"), "reviewed-ratio")
	b.ReportMetric(u.over("protected", "reviewed"), "protected-over-reviewed")
	b.ReportMetric(u["protected"].cpuMilliseconds()-u["reviewed"].cpuMilliseconds(), "cpu-ms-over-reviewed")
	b.ReportMetric(float64(writes)/float64(u["protected"].removals), "writes/removal")
	b.ReportMetric(stall.Seconds(), "max-stall-s")
}

// BenchmarkDenials compares removals that a protector without budget denies with those that a webhook admits which does nothing. A client
// whose removal was denied continues with the next. A denial must not write to the core.
func BenchmarkDenials(b *testing.B) {
	const clients, requests, pods = 64, 2000, 200
	u := usage{}
	for b.Loop() {
		alternate([]string{"reviewed", "refused"}, func(run string) {
			if run == "reviewed" {
				n := newBenchFixture(b, requests, run)
				n.withPausedNodes(func() {
					u.measure(run, requests, func() time.Duration { _, total := n.removeAll(clients); return total })
				})
				n.waitForNodes()
				return
			}
			n := newBenchFixture(b, pods, run)
			n.pods = slices.Repeat(n.pods, requests/pods)
			stop := n.countWrites()
			u.measure(run, requests, func() time.Duration { return n.requestDenials(clients) })
			if writes := stop(); writes != 0 {
				b.Errorf("%d denials caused %d writes to the protector, want 0", requests, writes)
			}
		})
	}
	u.report(b)
	b.ReportMetric(u.over("refused", "reviewed"), "refused-over-reviewed")
}

// requestDenials requests the removal of each pod, and returns how long all denials took together.
func (n *benchFixture) requestDenials(clients int) time.Duration {
	n.Helper()
	began := time.Now()
	n.deleteEach(clients, func(_ time.Duration, err error) (more bool) {
		if storm.OutcomeOf(err) != storm.Denied {
			n.Errorf("delete a pod at budget 0: got %v, want a denial", err)
		}
		return true
	})
	return time.Since(began)
}

// usage maps each run to what it took in all rounds.
type usage map[string]*used

type used struct {
	removals int
	took     time.Duration
	cpu      map[string]time.Duration // by process
}

// measure adds a run of that many removals. do returns how long they took.
func (u usage) measure(run string, removals int, do func() time.Duration) {
	if u[run] == nil {
		u[run] = &used{cpu: map[string]time.Duration{}}
	}
	before := cpuTimeByProcess()
	u[run].took += do()
	u[run].removals += removals
	for name, now := range cpuTimeByProcess() {
		u[run].cpu[name] += now - before[name]
	}
}

// over returns the rate of a run divided by that of another run.
func (u usage) over(run, base string) float64 { return u[run].perSecond() / u[base].perSecond() }

func (u *used) perSecond() float64 { return float64(u.removals) / u.took.Seconds() }

// cpuMilliseconds returns the CPU time of all processes for each removal.
func (u *used) cpuMilliseconds() (sum float64) {
	for _, each := range u.cpu {
		sum += each.Seconds() * 1000 / float64(u.removals)
	}
	return sum
}

// report reports removals per second of each run, and the CPU time of each process per removal, in milliseconds. It omits processes that use
// less than 0.02 ms.
func (u usage) report(b *testing.B) {
	b.Helper()
	for run, all := range u {
		b.ReportMetric(all.perSecond(), run+"/s")
		for name, used := range all.cpu {
			if each := used.Seconds() * 1000 / float64(all.removals); each >= 0.02 {
				b.ReportMetric(each, fmt.Sprintf("%s-%s-ms/removal", run, name))
			}
		}
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkUncontendedDelete measures one client that removes one pod after the other. It also measures a single write of a protector's
// status, which no webhook can avoid.
func BenchmarkUncontendedDelete(b *testing.B) {
	const times = 300
	each := map[string][]time.Duration{}
	for b.Loop() {
		alternate(append(benchmarkRuns, "write"), func(run string) {
			if run == "write" {
				each[run] = append(each[run], newBenchFixture(b, 0, run).writeStatusSequentially(times)...)
				return
			}
			durations, _ := newBenchFixture(b, times, run).removeAll(1)
			each[run] = append(each[run], durations...)
		})
	}
	for run := range each {
		reportPercentiles(b, run, each[run])
	}
	added := percentile(each["protected"], 99) - percentile(each["unprotected"], 99)
	b.ReportMetric(added/percentile(each["write"], 99), "added-p99-over-write")
	b.ReportMetric(0, "ns/op")
}

// writeStatusSequentially writes the protector's status the given number of times, one write after the other, and returns how long each
// write took. Each write adds a reservation, up to the number that is open while one client removes pods.
func (n *benchFixture) writeStatusSequentially(times int) (durations []time.Duration) {
	n.Helper()
	const open = 10
	p := &v1alpha1.PodProtector{}
	n.noError(n.Cores[0].Get(n.Context(), client.ObjectKey{Namespace: n.namespace, Name: "web"}, p))
	for len(durations) < times {
		for i := range p.Status.Cells {
			if history := &p.Status.Cells[i].AdmissionHistory; len(history.Buckets) == open {
				history.Buckets = nil
			}
		}
		quota.Decide(p, []quota.Removal{{
			Cell: n.cell.Name, PodUID: uuid.NewUUID(), PodName: "web", Operation: v1alpha1.OperationDelete, At: time.Now(),
		}})
		quota.Summarize(p)
		start := time.Now()
		err := n.Cores[0].Status().Update(n.Context(), p)
		if apierrors.IsConflict(err) { // an aggregator wrote first
			n.noError(n.Cores[0].Get(n.Context(), client.ObjectKeyFromObject(p), p))
			continue
		}
		n.noError(err)
		durations = append(durations, time.Since(start))
	}
	return durations
}

func reportPercentiles(b *testing.B, run string, durations []time.Duration) {
	b.Helper()
	for _, percent := range []int{50, 99} {
		b.ReportMetric(percentile(durations, percent), fmt.Sprintf("%s-p%d-ms", run, percent))
	}
}

func percentile(durations []time.Duration, percent int) (milliseconds float64) {
	sorted := slices.Sorted(slices.Values(durations))
	return float64(sorted[len(sorted)*percent/100].Microseconds()) / 1000
}
