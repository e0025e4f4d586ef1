package aggregator

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/crowd"
	"github.com/breakwater-k8s/breakwater/internal/measure"
)

// load is pods that become ready and unready: so many events a second, in so many applications.
type load struct{ rate, applications int }

func (l load) String() string {
	return fmt.Sprintf("events=%d/applications=%d", l.rate, l.applications)
}

// loads reports what pod events cost. In ten applications almost every event shares its write with others; in all of
// them each event makes a write of its own, which the apiserver of a small machine cannot do often.
func (r *run) loads() {
	for i, load := range []load{{500, 10}, {100, crowd.ReplicaSets}} {
		r.Run(load.String(), func(b *testing.B) {
			profiled := func() {}
			if i == 0 {
				profiled = r.Profile("aggregator", *processLoad*2/3)
			}
			r.of(b).measure(load)
			profiled()
		})
	}
}

// measure reports the processor time that the program and its apiserver use under a load.
func (r *run) measure(what load) {
	r.laboratory.Helper()
	used, others, writes, began := r.Processor(), measure.Children(), r.writes(), time.Now()
	events := r.disturb(what, *processLoad)
	seconds := time.Since(began).Seconds()
	r.ReportMetric(float64(events)/seconds, "events/s")
	r.ReportMetric((r.writes()-writes)/seconds, "writes/s")
	r.ReportMetric((r.Processor()-used).Seconds()/seconds, "aggregator-processors")
	for _, program := range []string{"kube-apiserver", "etcd"} {
		r.ReportMetric((measure.Children()[program]-others[program]).Seconds()/seconds, program+"-processors")
	}
	r.ReportMetric(r.Memory("VmRSS"), "aggregator-MiB")
	r.ReportMetric(0, "ns/op")
}

// disturb makes events for that long and returns how many there were: fewer than asked for if the apiserver is too slow.
func (r *run) disturb(what load, long time.Duration) int {
	r.laboratory.Helper()
	pods := what.applications * min(10, r.pods/crowd.ReplicaSets)
	todo := make(chan int)
	var (
		running sync.WaitGroup
		events  atomic.Int64
		cell    = r.cell()
	)
	for range 32 {
		running.Go(func() {
			for n := range todo {
				p := crowd.PodOf(n%what.applications, n%pods/what.applications*crowd.ReplicaSets)
				ready := corev1.ConditionTrue
				if n/pods%2 == 1 {
					ready = corev1.ConditionFalse
				}
				patch := fmt.Sprintf(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":%q}]}}`, ready)
				if _, err := cell.CoreV1().Pods(p.Namespace).Patch(r.laboratory.Context(), p.Name, types.StrategicMergePatchType,
					[]byte(patch), metav1.PatchOptions{}, "status"); err != nil {
					r.Errorf("change pod %s: %v", p.Name, err)
					continue
				}
				events.Add(1)
			}
		})
	}
	next := time.NewTicker(time.Second / time.Duration(what.rate))
	defer next.Stop()
	for end, n := time.Now().Add(long), 0; time.Now().Before(end); n++ {
		<-next.C
		todo <- n
	}
	close(todo)
	running.Wait()
	return int(events.Load())
}
