package rings_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/measure"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// A controller needs workDuration for an object, mostly waiting, then writes the result into the object, and processes workersPerShard objects
// concurrently. So a single one processes fewer than workersPerShard/workDuration = 50 objects per second. All shards together need far less CPU
// than two cores have, so that any loss of throughput is caused by sharding, or by the API server that they share.
const (
	workDuration    = 40 * time.Millisecond
	workersPerShard = 2
	objectCount     = 1500
)

// BenchmarkThroughput measures how many objects per second the shards of a ring process, compared with one instance of the controller without a
// ring.
func BenchmarkThroughput(b *testing.B) {
	b.Run("alone", func(b *testing.B) {
		l := newFixture(b, 10, nil)
		l.startShard("alone", "--ring=", "--write", "--work="+workDuration.String(), fmt.Sprintf("--workers=%d", workersPerShard), "--namespaces="+l.objects.prefix)
		l.measureThroughput(b)
	})
	for shards := range 5 {
		shards++
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			l := newFixture(b, 10, nil)
			for n := range shards {
				l.startShard(fmt.Sprintf("shard-%d", n), "--write", "--work="+workDuration.String(), fmt.Sprintf("--workers=%d", workersPerShard))
			}
			l.measureThroughput(b)
		})
	}
}

// measureThroughput measures how fast objects are processed that are created much faster.
func (l *fixture) measureThroughput(b *testing.B) {
	for b.Loop() {
		began, before, cpuTimes := time.Now(), l.recorder.countVisits(), measure.ChildCPUTimes()
		l.objects.forEach(objectCount, func(ctx context.Context, _ int) error { return l.objects.createObject(ctx) })
		made := time.Since(began)
		turns := l.objects.snapshot()
		l.waitUntil("all objects are processed", func() (bool, string) {
			n, one := l.recorder.countOutdated(turns)
			return n == 0, fmt.Sprintf("%d are not processed, such as %s", n, one)
		})
		total := time.Since(began)
		b.ReportMetric(objectCount/total.Seconds(), "objects/s")
		b.ReportMetric(float64(l.recorder.countVisits()-before)/objectCount, "visits/object")
		b.ReportMetric(objectCount/made.Seconds(), "made/s")
		for program, cpuTime := range measure.ChildCPUTimes() {
			if program == "shard" || program == "kube-apiserver" {
				b.ReportMetric((cpuTime-cpuTimes[program]).Seconds()*1000/objectCount, program+"-ms/object")
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	l.recorder.expectNoViolation(b)
}

// BenchmarkSharder measures what a sharder needs for a number of objects: the peak memory, and the CPU time of a full resync, which reads all
// objects, and of a light resync, which selects misplaced objects by labels. It measures the CPU time of an idle sharder separately, and
// subtracts it.
func BenchmarkSharder(b *testing.B) {
	for _, n := range []int{1000, 50_000} {
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			l := newFixture(b, 10, func(spec *v1alpha1.ClusterRingSpec) {
				spec.ResyncPeriodSeconds, spec.LeaseDurationSeconds = int32(checkInterval.Seconds()), 15 // the default lease duration
			})
			l.startShard("shard-0")
			l.startShard("shard-1")
			l.objects.forEach(n, func(ctx context.Context, _ int) error { return l.objects.createObject(ctx) })
			l.waitForBalance("shard-0", "shard-1")
			for b.Loop() {
				l.measureSharder(b)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// checkInterval is the time from one resync to the next.
const checkInterval = 10 * time.Second

// measureSharder runs another sharder, which replaces those of the fixture, through resyncs of both kinds.
func (l *fixture) measureSharder(b *testing.B) {
	for n := range 2 {
		if err := l.processes.Terminate(install.SharderName(n)); err != nil {
			b.Fatal(err)
		}
	}
	one, err := install.NewSharders(b.TempDir(), testplane.Kubeconfig(b), 1)
	if err != nil {
		b.Fatal(err)
	}
	defer one.Close()
	p := measure.Start(b, l.breakwater, one.Arguments[0]...)
	defer p.Stop()
	p.AwaitReady()
	total, light := l.measureFullCheck(p), l.measureLightCheck(p)
	idle := l.measureIdle(p)
	b.ReportMetric(p.Memory("VmHWM"), "sharder-MiB-peak")
	for unit, cpuTime := range map[string]time.Duration{"sharder-ms/whole-look": total - idle, "sharder-ms/light-look": light - idle, "sharder-idle-ms/10s": idle} {
		b.ReportMetric(float64(cpuTime.Microseconds())/1000, unit)
	}
}

// lastFullCount returns the time at which the sharder last counted all objects.
func (l *fixture) lastFullCount() time.Time {
	l.Helper()
	if at := l.getRing().Status.LastCounted; at != nil {
		return at.Time
	}
	return time.Time{}
}

// measureFullCheck returns the CPU time from one full resync to the next. A sharder that has just started makes no light resyncs.
func (l *fixture) measureFullCheck(p *measure.Process) time.Duration {
	l.Helper()
	const looks = 4
	next := func() {
		last := l.lastFullCount()
		p.Await(100*time.Millisecond, func() bool { return l.lastFullCount().After(last) }, l.ringState)
	}
	next() // the first resync may have begun before the measurement
	cpuTime := p.CPUTime()
	for range looks {
		next()
	}
	return (p.CPUTime() - cpuTime) / looks
}

// measureLightCheck returns the CPU time from one light resync to the next.
func (l *fixture) measureLightCheck(p *measure.Process) time.Duration {
	l.Helper()
	const looks = 8 // fewer than the light resyncs between two full ones
	lights := func() float64 { return p.Metric("breakwater_ring_passes_total", `outcome="light"`) }
	p.Await(time.Second, func() bool { return lights() > 0 }, l.ringState)
	last, cpuTime, made := l.lastFullCount(), p.CPUTime(), lights()
	l.sleep(looks*checkInterval - 2*time.Second) // reading metrics takes CPU as well
	p.Await(500*time.Millisecond, func() bool { return lights() >= made+looks }, l.ringState)
	cpuTime = p.CPUTime() - cpuTime
	if now := l.lastFullCount(); !now.Equal(last) {
		l.Fatalf("the sharder checked all objects during the measurement, at %s", now)
	}
	return cpuTime / looks
}

// measureIdle returns the CPU time of an interval of checkInterval in which no resync runs.
func (l *fixture) measureIdle(p *measure.Process) time.Duration {
	l.Helper()
	const times = 5
	last, of := l.lastFullCount(), l.getRing()
	of.Spec.ResyncPeriodSeconds = 300
	if err := l.Update(l.Context(), of); err != nil {
		l.Fatal(err)
	}
	p.Await(100*time.Millisecond, func() bool { return l.lastFullCount().After(last) }, l.ringState)
	l.sleep(checkInterval) // until the sharder has reported the results
	cpuTime := p.CPUTime()
	l.sleep(times * checkInterval)
	return (p.CPUTime() - cpuTime) / times
}

// sleep waits for a duration. It fails the test if the context ends before.
func (l *fixture) sleep(duration time.Duration) {
	l.Helper()
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.Context().Done():
		l.Fatal(l.Context().Err())
	}
}

// BenchmarkAssign measures what the assignment in admission adds to the latency of a CREATE. It alternates between objects of a ring and other
// objects.
func BenchmarkAssign(b *testing.B) {
	const each = 1000
	l := newFixture(b, 1, nil)
	for n := range 3 {
		l.startShard(fmt.Sprintf("shard-%d", n))
	}
	others := newObjects(b, 1, "none")
	for b.Loop() {
		took := map[*objects][]time.Duration{}
		for range each {
			for _, o := range []*objects{l.objects, others} {
				began := time.Now()
				if err := o.createObject(b.Context()); err != nil {
					b.Fatal(err)
				}
				took[o] = append(took[o], time.Since(began))
			}
		}
		for name, q := range map[string]float64{"p50": 0.5, "p99": 0.99} {
			b.ReportMetric(quantile(took[l.objects], q), "assigned-"+name+"-ms")
			b.ReportMetric(quantile(took[others], q), "plain-"+name+"-ms")
		}
	}
	b.ReportMetric(0, "ns/op")
	if placed := l.countByShard(); placed[""] > 0 {
		b.Fatalf("admission left objects to the resync: %v", placed)
	}
}

func quantile(all []time.Duration, q float64) (milliseconds float64) {
	all = slices.Sorted(slices.Values(all))
	return float64(all[int(math.Ceil(q*float64(len(all))))-1].Microseconds()) / 1000
}

// BenchmarkLoss measures the time from the death of one of three shards until all its objects have another shard. It also reports the part of
// that time after which the sharder may begin: twice the duration of a Lease.
func BenchmarkLoss(b *testing.B) {
	const n = 10_000
	l := newFixture(b, 10, nil)
	for n := range 3 {
		l.startShard(fmt.Sprintf("shard-%d", n))
	}
	l.objects.forEach(n, func(ctx context.Context, _ int) error { return l.objects.createObject(ctx) })
	l.waitForBalance("shard-0", "shard-1", "shard-2")
	for b.Loop() {
		lost := l.countByShard()["shard-1"]
		began := time.Now()
		l.killShard("shard-1")
		l.waitUntil("other shards have its objects", func() (bool, string) {
			left := l.countOfShard("shard-1")
			return left == 0, fmt.Sprintf("%d of %d remain; %s", left, lost, l.ringState())
		})
		b.ReportMetric(time.Since(began).Seconds(), "reassigned-s")
		b.ReportMetric(float64(lost), "objects")
		b.ReportMetric(2*benchmarkLeaseSeconds, "certain-s")
		l.startShard("shard-1")
		l.waitForBalance("shard-0", "shard-1", "shard-2")
	}
	b.ReportMetric(0, "ns/op")
}

// countOfShard returns the number of objects of a shard, by their labels in the API server.
func (l *fixture) countOfShard(shard string) (n int) {
	l.Helper()
	for _, namespace := range l.objects.namespaces {
		list, err := l.objects.clientset.CoreV1().ConfigMaps(namespace).List(l.Context(),
			metav1.ListOptions{LabelSelector: v1alpha1.LabelShard(l.ring.Name) + "=" + shard})
		if err != nil {
			l.Fatal(err)
		}
		n += len(list.Items)
	}
	return n
}

// BenchmarkScaleUp measures how many objects move, and how long that takes, when a ring scales from five shards to six.
func BenchmarkScaleUp(b *testing.B) {
	const n, shards = 10_000, 5
	l := newFixture(b, 10, nil)
	var names []string
	for i := range shards {
		names = append(names, fmt.Sprintf("shard-%d", i))
		l.startShard(names[i])
	}
	l.objects.forEach(n, func(ctx context.Context, _ int) error { return l.objects.createObject(ctx) })
	l.waitForBalance(names...)
	for b.Loop() {
		before := l.shardOfEach()
		began := time.Now()
		l.startShard("shard-5")
		l.waitForIdle("six shards are balanced", shards+1)
		b.ReportMetric(time.Since(began).Seconds(), "balanced-s")
		moved, movedElsewhere := 0, 0
		for object, shard := range l.shardOfEach() {
			if shard != before[object] {
				moved++
				if shard != "shard-5" {
					movedElsewhere++
				}
			}
		}
		b.ReportMetric(float64(moved)/n, "moved")
		b.ReportMetric(float64(movedElsewhere), "moved-elsewhere")
		if err := l.processes.Terminate("shard-5"); err != nil {
			b.Fatal(err)
		}
		l.waitForBalance(names...)
	}
	b.ReportMetric(0, "ns/op")
	l.recorder.expectNoViolation(b)
}
