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

// What a controller does to an object takes it some time, mostly waiting, and it does so much at once: by itself it cannot do more than
// worked/work objects a second, which is 50. The work of all shards together is then far from what two processors can do, so that what
// is lost is lost by sharing out.
const (
	work    = 40 * time.Millisecond
	workers = 2
	worked  = 3000
)

// BenchmarkThroughput is how many objects the shards of a ring work on in a second, against one instance of the controller without a
// ring.
func BenchmarkThroughput(b *testing.B) {
	b.Run("alone", func(b *testing.B) {
		l := newLab(b, 10, nil)
		l.start("alone", "--ring=", "--work="+work.String(), fmt.Sprintf("--workers=%d", workers), "--namespaces="+l.objects.prefix)
		l.throughput(b)
	})
	for shards := range 5 {
		shards++
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			l := newLab(b, 10, nil)
			for n := range shards {
				l.start(fmt.Sprintf("shard-%d", n), "--work="+work.String(), fmt.Sprintf("--workers=%d", workers))
			}
			l.throughput(b)
		})
	}
}

// throughput measures how fast objects are worked on that are made much faster.
func (l *lab) throughput(b *testing.B) {
	for b.Loop() {
		began, before := time.Now(), l.recorder.ended()
		l.objects.each(worked, func(ctx context.Context, _ int) error { return l.objects.make(ctx) })
		made := time.Since(began)
		turns := l.objects.snapshot()
		l.await("all are worked on", func() (bool, string) {
			n, one := l.recorder.behind(turns)
			return n == 0, fmt.Sprintf("%d are not, such as %s", n, one)
		})
		whole := time.Since(began)
		b.ReportMetric(worked/whole.Seconds(), "objects/s")
		b.ReportMetric(float64(l.recorder.ended()-before)/worked, "visits/object")
		b.ReportMetric(worked/made.Seconds(), "made/s")
	}
	b.ReportMetric(0, "ns/op")
	l.recorder.wantNoViolation(b)
}

// BenchmarkSharder is what a sharder needs for so many objects: memory at its most while it looks at all of them, and the processor
// time of that, and of a look at those alone that cannot be where they are to be. What it needs while it looks at none is told apart, and
// taken off.
func BenchmarkSharder(b *testing.B) {
	for _, n := range []int{1000, 50_000} {
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			l := newLab(b, 10, func(spec *v1alpha1.ClusterRingSpec) {
				spec.ResyncPeriodSeconds, spec.LeaseDurationSeconds = int32(between.Seconds()), 15 // as usual
			})
			l.start("shard-0")
			l.start("shard-1")
			l.objects.each(n, func(ctx context.Context, _ int) error { return l.objects.make(ctx) })
			l.awaitBalance("shard-0", "shard-1")
			for b.Loop() {
				l.measureSharder(b)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// between is how long it is from one look to the next.
const between = 10 * time.Second

// measureSharder runs a sharder of its own that takes over from those of the lab, through looks of both kinds.
func (l *lab) measureSharder(b *testing.B) {
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
	whole, light := l.measureWhole(p), l.measureLight(p)
	idle := l.measureNone(p)
	b.ReportMetric(p.Memory("VmHWM"), "sharder-MiB-peak")
	for unit, spent := range map[string]time.Duration{"sharder-ms/whole-look": whole - idle, "sharder-ms/light-look": light - idle, "sharder-idle-ms/10s": idle} {
		b.ReportMetric(float64(spent.Microseconds())/1000, unit)
	}
}

// counted is when all objects were counted last.
func (l *lab) counted() time.Time {
	l.Helper()
	if at := l.get().Status.LastCounted; at != nil {
		return at.Time
	}
	return time.Time{}
}

// measureWhole is the processor time from one look at all objects to the next: a sharder that has just begun makes no others.
func (l *lab) measureWhole(p *measure.Process) time.Duration {
	l.Helper()
	const looks = 4
	next := func() {
		last := l.counted()
		p.Await(100*time.Millisecond, func() bool { return l.counted().After(last) }, l.state)
	}
	next() // it may have begun before
	spent := p.Processor()
	for range looks {
		next()
	}
	return (p.Processor() - spent) / looks
}

// measureLight is the processor time from one light look to the next.
func (l *lab) measureLight(p *measure.Process) time.Duration {
	l.Helper()
	const looks = 8 // fewer than there are between two looks at all objects
	lights := func() float64 { return p.Metric("breakwater_ring_passes_total", `outcome="light"`) }
	p.Await(time.Second, func() bool { return lights() > 0 }, l.state)
	last, spent, made := l.counted(), p.Processor(), lights()
	l.pass(looks*between - 2*time.Second) // to ask for metrics is work, too
	p.Await(500*time.Millisecond, func() bool { return lights() >= made+looks }, l.state)
	spent = p.Processor() - spent
	if now := l.counted(); !now.Equal(last) {
		l.Fatalf("all objects were looked at meanwhile, at %s", now)
	}
	return spent / looks
}

// measureNone is the processor time in which there could be a look, and is none.
func (l *lab) measureNone(p *measure.Process) time.Duration {
	l.Helper()
	const times = 5
	last, of := l.counted(), l.get()
	of.Spec.ResyncPeriodSeconds = 300
	if err := l.Update(l.Context(), of); err != nil {
		l.Fatal(err)
	}
	p.Await(100*time.Millisecond, func() bool { return l.counted().After(last) }, l.state)
	l.pass(between) // until all has been told that follows from it
	spent := p.Processor()
	l.pass(times * between)
	return (p.Processor() - spent) / times
}

// pass lets time pass.
func (l *lab) pass(duration time.Duration) {
	l.Helper()
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.Context().Done():
		l.Fatal(l.Context().Err())
	}
}

// BenchmarkAssign is what the assignment in admission adds to a CREATE, one after the other: objects of a ring, and others in between.
func BenchmarkAssign(b *testing.B) {
	const each = 1000
	l := newLab(b, 1, nil)
	for n := range 3 {
		l.start(fmt.Sprintf("shard-%d", n))
	}
	others := newObjects(b, 1, "none")
	for b.Loop() {
		took := map[*objects][]time.Duration{}
		for range each {
			for _, o := range []*objects{l.objects, others} {
				began := time.Now()
				if err := o.make(b.Context()); err != nil {
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
	if placed := l.placed(); placed[""] > 0 {
		b.Fatalf("admission has left objects to the resync: %v", placed)
	}
}

func quantile(all []time.Duration, q float64) (milliseconds float64) {
	all = slices.Sorted(slices.Values(all))
	return float64(all[int(math.Ceil(q*float64(len(all))))-1].Microseconds()) / 1000
}

// BenchmarkLoss is how long it takes from the death of one of three shards until all its objects have another one, and of that the
// time until the sharder may begin: twice the time that a Lease lasts.
func BenchmarkLoss(b *testing.B) {
	const n = 10_000
	l := newLab(b, 10, nil)
	for n := range 3 {
		l.start(fmt.Sprintf("shard-%d", n))
	}
	l.objects.each(n, func(ctx context.Context, _ int) error { return l.objects.make(ctx) })
	l.awaitBalance("shard-0", "shard-1", "shard-2")
	for b.Loop() {
		lost := l.placed()["shard-1"]
		began := time.Now()
		l.kill("shard-1")
		l.await("others have its objects", func() (bool, string) {
			left := l.withShard("shard-1")
			return left == 0, fmt.Sprintf("%d of %d are left; %s", left, lost, l.state())
		})
		b.ReportMetric(time.Since(began).Seconds(), "reassigned-s")
		b.ReportMetric(float64(lost), "objects")
		b.ReportMetric(2*benchmarkLeaseSeconds, "certain-s")
		l.start("shard-1")
		l.awaitBalance("shard-0", "shard-1", "shard-2")
	}
	b.ReportMetric(0, "ns/op")
}

// withShard is how many objects a shard has, as the apiserver counts them.
func (l *lab) withShard(shard string) (n int) {
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

// BenchmarkScaleUp is how many objects move, and how long that takes, when five shards of a ring become six.
func BenchmarkScaleUp(b *testing.B) {
	const n, shards = 10_000, 5
	l := newLab(b, 10, nil)
	var names []string
	for i := range shards {
		names = append(names, fmt.Sprintf("shard-%d", i))
		l.start(names[i])
	}
	l.objects.each(n, func(ctx context.Context, _ int) error { return l.objects.make(ctx) })
	l.awaitBalance(names...)
	for b.Loop() {
		before := l.shardOfEach()
		began := time.Now()
		l.start("shard-5")
		l.awaitRest("six shards are balanced", shards+1)
		b.ReportMetric(time.Since(began).Seconds(), "balanced-s")
		moved, elsewhere := 0, 0
		for object, shard := range l.shardOfEach() {
			if shard != before[object] {
				moved++
				if shard != "shard-5" {
					elsewhere++
				}
			}
		}
		b.ReportMetric(float64(moved)/n, "moved")
		b.ReportMetric(float64(elsewhere), "moved-elsewhere")
		if err := l.processes.Terminate("shard-5"); err != nil {
			b.Fatal(err)
		}
		l.awaitBalance(names...)
	}
	b.ReportMetric(0, "ns/op")
	l.recorder.wantNoViolation(b)
}
