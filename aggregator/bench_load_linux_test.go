package aggregator

import (
	"fmt"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/largecluster"
	"github.com/breakwater-k8s/breakwater/e2e/harness/measure"
)

// load is pods that become ready and unready: rate events a second, in that many applications.
type load struct{ rate, applications int }

func (l load) String() string {
	return fmt.Sprintf("events=%d/applications=%d", l.rate, l.applications)
}

// loads reports the cost of pod events, with a real core and a stand-in for the cell. In ten applications almost every
// event shares its write with others, as in a rollout or a storm; in a hundred and in all of them fewer do. The difference
// is the cost of writes.
func (l *benchFixture) loads(b *testing.B, pods, protectors int) {
	b.Run(fmt.Sprintf("load/pods=%d/protectors=%d", pods, protectors), func(b *testing.B) {
		in := l.forBenchmark(b)
		in.createProtectors(protectors)
		cell := newFakeCell(b, pods, in.applications)
		r := in.runOn(cell.kubeconfig(), pods)
		r.reportStart(pods, protectors)
		for i, load := range []load{{500, 10}, {500, 100}, {100, largecluster.ReplicaSets}} {
			b.Run(load.String(), func(b *testing.B) {
				profiled := func() {}
				if i == 1 {
					profiled = r.Profile("aggregator", *processLoad*2/3)
				}
				r.forBenchmark(b).measure(cell, load)
				profiled()
			})
		}
		r.Stop()
	})
}

// measure reports the CPU time that the program and its core use under a load.
func (r *run) measure(cell *fakeCell, what load) {
	r.benchFixture.Helper()
	used, others, writes, began := r.CPUTime(), measure.ChildCPUTimes(), r.writes(), time.Now()
	events := cell.sendEvents(what, *processLoad)
	seconds := time.Since(began).Seconds()
	r.ReportMetric(float64(events)/seconds, "events/s")
	r.ReportMetric((r.writes()-writes)/seconds, "writes/s")
	r.ReportMetric((r.CPUTime()-used).Seconds()/seconds, "aggregator-processors")
	for _, program := range []string{"kube-apiserver", "etcd"} {
		r.ReportMetric((measure.ChildCPUTimes()[program]-others[program]).Seconds()/seconds, program+"-processors")
	}
	r.ReportMetric(r.Memory("VmRSS"), "aggregator-MiB")
	r.ReportMetric(0, "ns/op")
}

// sendEvents sends events for the duration long, and returns how many: fewer than requested if the machine is too slow. Ten
// pods of each application change, first all to unready and then all to ready, so that counts change with every event.
func (s *fakeCell) sendEvents(what load, long time.Duration) int {
	next := time.NewTicker(time.Second / time.Duration(what.rate))
	defer next.Stop()
	end, events := time.Now().Add(long), 0
	for ; time.Now().Before(end); events++ {
		<-next.C
		app, turn := events%what.applications, events/what.applications
		s.change(app+turn%10*largecluster.ReplicaSets, turn/10%2 == 1)
	}
	return events
}
