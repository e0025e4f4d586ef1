package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

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
}

func newBenchFixture(b *testing.B, pods int, protected bool) *benchFixture {
	b.Helper()
	labels := map[string]string{}
	if !protected {
		labels[v1alpha1.LabelExempt] = "true"
	}
	n := newBenchNamespace(b, labels)
	n.protect("web", 1)
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
	app := storm.Application{Namespace: n.namespace, Name: "web", Pods: pods + sparePods, GraceSeconds: []int64{defaultGraceSeconds}}
	n.noError(app.DeployBare(n.Context(), []storm.Cell{n.cell}))
	n.waitUntilCounted(pods + sparePods)
	list, err := n.cell.Client.CoreV1().Pods(n.namespace).List(n.Context(), metav1.ListOptions{})
	n.noError(err)
	for _, pod := range list.Items[:pods] {
		n.pods = append(n.pods, pod.Name)
	}
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
	n.deleteEach(clients, func(took time.Duration, err error) (more bool) {
		durations, failed = append(durations, took), firstOf(failed, err)
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

// deleteProtector deletes the protector. From then on the webhook reviews removals and allows them without further work.
func (n *benchFixture) deleteProtector() {
	n.Helper()
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: "web"}}
	n.noError(n.Cores[0].Delete(n.Context(), p))
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

// BenchmarkStorm removes pods of one protector with 64 clients, as fast as possible, in each run in turn. Each round begins with another
// run, because the speed of the machine varies over minutes. A run takes some seconds: in a shorter one, a single garbage collection of an
// API server would decide the result.
func BenchmarkStorm(b *testing.B) {
	const clients, pods = 64, 2000
	took, writes, rounds := map[string]time.Duration{}, 0, 0
	used := cpuTimes{}
	for b.Loop() {
		for turn := range benchmarkRuns {
			run := benchmarkRuns[(rounds+turn)%len(benchmarkRuns)]
			n := newBenchFixture(b, pods, run != "unprotected")
			stop := func() int { return 0 }
			switch run {
			case "reviewed":
				n.deleteProtector()
			case "protected":
				stop = n.countWrites()
			}
			n.withPausedNodes(func() {
				before := cpuTimeByProcess()
				_, total := n.removeAll(clients)
				used.add(run, before)
				took[run] += total
				writes += stop()
			})
			n.waitForNodes()
		}
		rounds++
	}
	removals := float64(pods * rounds)
	for _, run := range benchmarkRuns {
		b.ReportMetric(removals/took[run].Seconds(), run+"/s")
		used.report(b, run, removals)
	}
	b.ReportMetric(took["unprotected"].Seconds()/took["protected"].Seconds(), "ratio")
	b.ReportMetric(took["unprotected"].Seconds()/took["reviewed"].Seconds(), "reviewed-ratio")
	b.ReportMetric(float64(writes)/removals, "writes/removal")
	b.ReportMetric(0, "ns/op")
}

// cpuTimes maps each run to the CPU time that each process used.
type cpuTimes map[string]map[string]time.Duration

func (p cpuTimes) add(run string, before map[string]time.Duration) {
	if p[run] == nil {
		p[run] = map[string]time.Duration{}
	}
	for name, used := range cpuTimeByProcess() {
		p[run][name] += used - before[name]
	}
}

// report reports the CPU time of each process per removal, in milliseconds. It omits processes that use less than 0.02 ms.
func (p cpuTimes) report(b *testing.B, run string, removals float64) {
	b.Helper()
	for name, used := range p[run] {
		if each := used.Seconds() * 1000 / removals; each >= 0.02 {
			b.ReportMetric(each, fmt.Sprintf("%s-%s-ms/removal", run, name))
		}
	}
}

// BenchmarkUncontendedDelete measures one client that removes one pod after the other. It also measures a single write of a protector's
// status, which no webhook can avoid.
func BenchmarkUncontendedDelete(b *testing.B) {
	const times = 300
	for b.Loop() {
		for _, run := range benchmarkRuns {
			n := newBenchFixture(b, times, run != "unprotected")
			if run == "reviewed" {
				n.deleteProtector()
			}
			each, _ := n.removeAll(1)
			reportPercentiles(b, run, each)
		}
		reportPercentiles(b, "write", newBenchFixture(b, 0, true).writeStatusSequentially(times))
	}
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
	slices.Sort(durations)
	for _, percent := range []int{50, 99} {
		at := durations[len(durations)*percent/100]
		b.ReportMetric(float64(at.Microseconds())/1000, fmt.Sprintf("%s-p%d-ms", run, percent))
	}
}
