package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// burst is a short storm: clients delete all pods in random order, once each, until the whole budget of all protectors is used.
type burst struct {
	protectors, pods, floor int
	clients                 int
}

func (s burst) budget() int { return s.protectors * (s.pods - s.floor) }

// BenchmarkColdStorm measures the beginning of a storm: the first 250 removals with a protector that was not used before.
func BenchmarkColdStorm(b *testing.B) {
	burst{protectors: 1, pods: 600, floor: 350, clients: 64}.run(b)
}

// BenchmarkWideStorm measures a storm over many protectors, each with a small budget.
func BenchmarkWideStorm(b *testing.B) {
	burst{protectors: 100, pods: 12, floor: 8, clients: 64}.run(b)
}

// run compares the time until the budget is used with the time in which the same clients remove as many pods through a webhook that
// allows everything.
func (s burst) run(b *testing.B) {
	took, durations := map[string][]time.Duration{}, map[string][]time.Duration{}
	used, writes, rounds := cpuTimes{}, 0, 0
	for b.Loop() {
		rounds++
		for _, run := range []string{"reviewed", "protected"} {
			n := s.newFixture(b, run == "protected")
			n.withPausedNodes(func() {
				before, stop := cpuTimeByProcess(), n.countWrites()
				each, total := s.play(n)
				used.add(run, before)
				writes += stop()
				took[run], durations[run] = append(took[run], total), append(durations[run], each...)
			})
		}
	}
	for run := range took {
		slices.Sort(took[run])
		b.ReportMetric(took[run][len(took[run])/2].Seconds(), run+"-s")
		reportPercentiles(b, run, durations[run])
		used.report(b, run, float64(rounds*s.budget()))
	}
	reviewed, protected := took["reviewed"], took["protected"]
	b.ReportMetric(float64(s.budget())/protected[len(protected)/2].Seconds(), "protected/s")
	b.ReportMetric(protected[len(protected)/2].Seconds()/reviewed[len(reviewed)/2].Seconds(), "times-reviewed")
	b.ReportMetric(float64(writes)/float64(rounds*s.budget()), "writes/removal")
	b.ReportMetric(0, "ns/op")
}

// newFixture creates the protectors, if there are any, and the pods, and waits until all pods are counted.
func (s burst) newFixture(b *testing.B, protected bool) *benchFixture {
	b.Helper()
	n := &benchFixture{B: b, Suite: loopSuite, cell: loopSuite.Cells[0]}
	core := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "burst-"}}
	n.noError(n.Cores[0].Create(b.Context(), core))
	n.namespace = core.Name
	_, err := n.cell.Client.CoreV1().Namespaces().Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.namespace}}, metav1.CreateOptions{})
	n.noError(err)
	for i := range s.protectors {
		name := fmt.Sprintf("web-%d", i)
		if protected {
			p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: name}}
			p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": name}}
			p.Spec.MinAvailable = v1alpha1.Pods(int32(s.floor))
			n.noError(n.Cores[0].Create(b.Context(), p))
		}
		n.noError(storm.Application{Namespace: n.namespace, Name: name, Pods: s.pods, GraceSeconds: []int64{defaultGraceSeconds}}.DeployBare(b.Context(), []storm.Cell{n.cell}))
	}
	list, err := n.cell.Client.CoreV1().Pods(n.namespace).List(b.Context(), metav1.ListOptions{})
	n.noError(err)
	for _, pod := range list.Items {
		n.pods = append(n.pods, pod.Name)
	}
	if protected {
		s.waitUntilCounted(n)
	}
	return n
}

func (s burst) waitUntilCounted(n *benchFixture) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), 2*time.Minute)
	defer cancel()
	for {
		list := &v1alpha1.PodProtectorList{}
		n.noError(n.Cores[0].List(ctx, list, client.InNamespace(n.namespace)))
		uncounted := slices.IndexFunc(list.Items, func(p v1alpha1.PodProtector) bool { return int(p.Status.Summary.Available) != s.pods })
		if uncounted < 0 {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			n.Fatalf("pods are not counted: %+v", list.Items[uncounted].Status.Summary)
		}
	}
}

// play returns how long each admitted removal took, and the time until the budget was used.
func (s burst) play(n *benchFixture) (each []time.Duration, total time.Duration) {
	n.Helper()
	rand.Shuffle(len(n.pods), func(i, j int) { n.pods[i], n.pods[j] = n.pods[j], n.pods[i] })
	queue := make(chan string, len(n.pods))
	for _, pod := range n.pods {
		queue <- pod
	}
	close(queue)
	var (
		mu      sync.Mutex
		clients sync.WaitGroup
	)
	began := time.Now()
	for range s.clients {
		clients.Go(func() {
			for pod := range queue {
				start := time.Now()
				err := n.cell.Client.CoreV1().Pods(n.namespace).Delete(n.Context(), pod, metav1.DeleteOptions{})
				mu.Lock()
				if err == nil && len(each) < s.budget() {
					each, total = append(each, time.Since(start)), time.Since(began)
				} else if err != nil && storm.OutcomeOf(err) == storm.Failed {
					n.Errorf("delete pod %s: %v", pod, err)
				}
				enough := len(each) == s.budget()
				mu.Unlock()
				if enough {
					return
				}
			}
		})
	}
	clients.Wait()
	if len(each) < s.budget() {
		n.Errorf("%d removals were admitted, want %d", len(each), s.budget())
	}
	return each, total
}
