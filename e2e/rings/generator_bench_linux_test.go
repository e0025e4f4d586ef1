package rings_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/measure"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

var workloadCount = flag.Int("protectors", 2000, "number of protectors that BenchmarkGenerator starts with")

// BenchmarkGenerator runs generators with the given number of protected workloads: one generator alone, and five shards. It reports the memory
// of the largest process as the kernel measures it, the rate at which a tenth more workloads get protectors, and the total CPU time for those.
func BenchmarkGenerator(b *testing.B) {
	l := newBareFixture(b)
	l.createLeaseNamespace()
	l.ring = &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Spec: v1alpha1.ClusterRingSpec{LeaseDurationSeconds: 30}}
	if err := l.Create(b.Context(), l.ring); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Delete(context.Background(), l.ring) })
	program, w := measure.Build(b), newWorkloads(l, 50)
	w.createConcurrently(*workloadCount)
	for _, shards := range []int{0, 5} {
		name := "alone"
		if shards > 0 {
			name = fmt.Sprintf("shards=%d", shards)
		}
		b.Run(fmt.Sprintf("protectors=%d/%s", *workloadCount, name), func(b *testing.B) {
			arguments := [][]string{{"--leader-elect=false"}}
			if shards > 0 {
				arguments = nil
			}
			for n := range shards {
				arguments = append(arguments, []string{"--ring=" + l.ring.Name, fmt.Sprintf("--shard=bench-%d", n)})
			}
			var all generators
			for _, own := range arguments {
				all = append(all, measure.Start(b, program, append([]string{"generator", "--kubeconfig=" + testplane.Kubeconfig(b)}, own...)...))
			}
			all.measure(b, w)
		})
	}
}

// generators are generator processes that run concurrently.
type generators []*measure.Process

func (g generators) measure(b *testing.B, w *workloads) {
	b.Helper()
	for _, p := range g {
		p.AwaitReady()
	}
	g.waitForProtectors(b, w)
	memory, most := 0.0, 0.0
	for _, p := range g {
		memory = max(memory, p.StableMemory(5*time.Second))
		most = max(most, p.Memory("VmHWM"))
	}
	more, began, cpuTime := *workloadCount/10, time.Now(), g.cpuTime()
	w.createConcurrently(more)
	g.waitForProtectors(b, w)
	b.ReportMetric(float64(more)/time.Since(began).Seconds(), "protectors/s")
	b.ReportMetric((g.cpuTime()-cpuTime).Seconds()*1000/float64(more), "processor-ms/protector")
	b.ReportMetric(memory, "generator-MiB-settled")
	b.ReportMetric(most, "generator-MiB-peak")
	b.ReportMetric(0, "ns/op")
	for _, p := range g {
		p.Stop()
	}
}

func (g generators) cpuTime() (cpuTime time.Duration) {
	for _, p := range g {
		cpuTime += p.CPUTime()
	}
	return cpuTime
}

// waitForProtectors waits until as many protectors as workloads exist. It requests only their number, which costs the API server little CPU.
func (g generators) waitForProtectors(b *testing.B, w *workloads) {
	b.Helper()
	protectors := metadata.NewForConfigOrDie(testplane.Config(b)).Resource(v1alpha1.GroupVersion.WithResource("podprotectors"))
	there := 0
	g[0].Await(100*time.Millisecond, func() bool {
		list, err := protectors.List(b.Context(), metav1.ListOptions{Limit: 1})
		if err != nil {
			b.Fatal(err)
		}
		there = len(list.Items)
		if rest := list.RemainingItemCount; rest != nil {
			there += int(*rest)
		}
		return there >= w.created
	}, func() string { return fmt.Sprintf("%d of %d workloads have protectors", there, w.created) })
}
