package webhook_test

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var replicaRounds = flag.Int("rounds", 1, "how many times BenchmarkReplicas runs each number of replicas, in turn")

// BenchmarkReplicas measures reviews of one protector by 64 callers, divided among replicas, against a real core. It
// shows the throughput of a replica, and the cost of several replicas that write the same object.
func BenchmarkReplicas(b *testing.B) {
	for range *replicaRounds {
		for _, replicas := range []int{1, 2, 3, 4} {
			b.Run(fmt.Sprint("replicas=", replicas), func(b *testing.B) { benchReplicas(b, replicas) })
		}
	}
}

func benchReplicas(b *testing.B, replicas int) {
	b.Helper()
	l := newFixtureFor(b)
	l.protect("web", 1, 1_000_000)
	all := l.servePeers(replicas)
	const warm = 1000 // until replicas have detected each other, and have connections
	reviewAll(b, all, 64, 0, warm)
	before := replicaCounts(all)
	b.ResetTimer()
	each := reviewAll(b, all, 64, warm, b.N)
	b.StopTimer()
	slices.Sort(each)
	counts := replicaCounts(all)
	writes, conflicts := counts.written-before.written, counts.conflicts-before.conflicts
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "removals/s")
	b.ReportMetric(float64(writes)/float64(b.N), "writes/removal")
	b.ReportMetric(float64(conflicts)/float64(writes), "conflicts/write")
	b.ReportMetric(float64(counts.handedOver-before.handedOver)/float64(b.N), "handed-over/removal")
	for _, percent := range []int{50, 99} {
		b.ReportMetric(float64(each[len(each)*percent/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", percent))
	}
}

type counts struct{ written, conflicts, handedOver int }

func replicaCounts(replicas []*replica) (sum counts) {
	for _, r := range replicas {
		sum.written += r.count("breakwater_webhook_status_writes_total", "result", "written")
		sum.conflicts += r.count("breakwater_webhook_status_writes_total", "result", "conflict")
		sum.handedOver += r.count("breakwater_webhook_handed_over_total")
	}
	return sum
}

// reviewAll requests the given number of removals, each of a pod of its own, and returns how long each took.
func reviewAll(b *testing.B, replicas []*replica, callers, from, removals int) []time.Duration {
	b.Helper()
	todo := make(chan *corev1.Pod, removals)
	for i := range removals {
		todo <- benchPod(replicas[0].namespace, from+i)
	}
	close(todo)
	var (
		mu      sync.Mutex
		each    []time.Duration
		running sync.WaitGroup
	)
	for caller := range callers {
		r := replicas[caller%len(replicas)]
		running.Go(func() {
			for pod := range todo {
				asked := time.Now()
				answer := r.protection.Review(b.Context(), r.cell, deleteReview(pod).Request)
				took := time.Since(asked)
				if !answer.Allowed {
					b.Errorf("removal of %s: %+v", pod.Name, answer.Status)
				}
				mu.Lock()
				each = append(each, took)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return each
}

func benchPod(namespace string, i int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprintf("%08d-0000-4000-8000-%012d", i, i)),
		Labels: map[string]string{"app": "web"},
	}}
	p.Spec.NodeName = "node-1"
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}
