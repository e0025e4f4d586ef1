package snapshot

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

const snapshotPods = 100_000

// BenchmarkSnapshotMemory reports the heap of a snapshot of 100,000 pods: per pod without the protectors' own memory,
// and in total.
func BenchmarkSnapshotMemory(b *testing.B) {
	for _, own := range []bool{false, true} {
		for _, protectors := range []int{1000, 10_000} {
			labels := map[bool]string{false: "ReplicaSet", true: "own"}[own]
			b.Run(fmt.Sprintf("labels=%s/protectors=%d", labels, protectors), func(b *testing.B) {
				for b.Loop() {
					before := heap()
					s := coveringSnapshot(b, protectors)
					empty := heap()
					for i := range snapshotPods {
						p := receivedPod(b, i)
						if own {
							p.Labels["statefulset.kubernetes.io/pod-name"] = p.Name
						}
						if err := s.Add(p); err != nil {
							b.Fatal(err)
						}
					}
					full := heap()
					b.ReportMetric(float64(full-empty)/snapshotPods, "B/pod")
					b.ReportMetric(float64(full-before)/(1<<20), "MiB")
					runtime.KeepAlive(s)
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func coveringSnapshot(b *testing.B, protectors int) *Snapshot {
	b.Helper()
	s := New(func(types.NamespacedName, time.Duration) {}, func(err error) { b.Fatal(err) }, time.Now, time.Now)
	if err := s.Replace(nil, "1"); err != nil {
		b.Fatal(err)
	}
	for app := range protectors {
		p := benchProtector(app)
		selector, err := selectors.Compile(*p.Spec.Selector)
		if err != nil {
			b.Fatal(err)
		}
		s.Cover(client.ObjectKeyFromObject(p), selectors.Coverage{Selector: selector}, time.Second)
	}
	return s
}

func heap() uint64 {
	runtime.GC()
	runtime.GC() // collects what the first run made unreachable by clearing weak pointers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
