package aggregator_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/breakwater-k8s/breakwater/aggregator"
	"github.com/breakwater-k8s/breakwater/aggregator/modes"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// fixture is a namespace and a cell of a real API server, which is core and worker at once. The pods of a lab are in every cell of
// that API server, so one lab runs at a time.
type fixture struct {
	*testing.T
	client    client.Client
	scheme    *runtime.Scheme
	namespace string
	cell      string
	trigger   modes.Trigger
	// guardsIn is the namespace for node guards; empty is none.
	guardsIn string
	ofShares bool
	tracer   *tracing.Tracer
	// now is the wall clock of the aggregators; nil is the machine's.
	now func() time.Time
}

func newFixture(t *testing.T) *fixture {
	scheme := clusters.Scheme()
	c, err := client.New(testplane.Config(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	namespace := testplane.Namespace(t)
	return &fixture{T: t, client: c, scheme: scheme, namespace: namespace, cell: namespace}
}

func (l *fixture) create(object client.Object) {
	l.Helper()
	if err := l.client.Create(l.Context(), object); err != nil {
		l.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
}

func (l *fixture) createCell() {
	l.Helper()
	l.create(&v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.cell}})
}

func (l *fixture) createProtector(change func(*v1alpha1.PodProtectorSpec)) *v1alpha1.PodProtector {
	l.Helper()
	rate := int32(50)
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "web"}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	p.Spec.MinAvailable = v1alpha1.Pods(1)
	p.Spec.AdmissionHistory.AggregationRateMillis = &rate
	change(&p.Spec)
	l.create(p)
	// The aggregators of later tests would look for its workloads, and wait for kinds that they may not list.
	l.Cleanup(func() { _ = l.client.Delete(context.Background(), p.DeepCopy()) })
	return p
}

func (l *fixture) createPod(name string, ready bool) *corev1.Pod {
	l.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: l.namespace, Name: name, Labels: map[string]string{"app": "web"},
	}}
	p.Spec.NodeName = "node-1"
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
	l.create(p)
	l.setReady(p, ready)
	return p
}

func (l *fixture) setReady(p *corev1.Pod, ready bool) {
	l.Helper()
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Now()}}
	if err := l.client.Status().Update(l.Context(), p); err != nil {
		l.Fatalf("set the status of pod %s: %v", p.Name, err)
	}
}

// run starts an aggregator. It returns a function that stops it and waits until it has ended.
func (l *fixture) run(identity string) (stop func()) {
	l.Helper()
	config := testplane.Config(l.T)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: l.scheme, Logger: testr.New(l.T), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		l.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = aggregator.SetupWithManager(ctx, mgr, aggregator.Options{
		Cell: l.cell, CellConfig: config, Identity: identity, LeaseNamespace: l.namespace,
		LeaseDuration: 2 * time.Second, Heartbeat: time.Second, Workers: 2, Metrics: prometheus.NewRegistry(), Trigger: l.trigger, Tracer: l.tracer, Now: l.now,
		OfShares: l.ofShares, ReportGaps: true,
	})
	if err != nil {
		l.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			l.Errorf("aggregator %s: %v", identity, err)
		}
		ended <- nil
	}
	l.Cleanup(stop)
	return stop
}

// eventually waits until look returns "", and otherwise fails with its last result.
func (l *fixture) eventually(check func() string) { l.Helper(); testplane.Eventually(l, check) }

func (l *fixture) protector() *v1alpha1.PodProtector {
	l.Helper()
	p := &v1alpha1.PodProtector{}
	if err := l.client.Get(l.Context(), client.ObjectKey{Namespace: l.namespace, Name: "web"}, p); err != nil {
		l.Fatal(err)
	}
	return p
}

func (l *fixture) wantSummary(want v1alpha1.Summary) *v1alpha1.PodProtector {
	l.Helper()
	var p *v1alpha1.PodProtector
	l.eventually(func() string {
		p = l.protector()
		if diff := cmp.Diff(want, p.Status.Summary); diff != "" || len(p.Status.Cells) == 0 {
			return fmt.Sprintf("summary (-want +got):\n%s\nstatus %+v", diff, p.Status)
		}
		return ""
	})
	return p
}

func TestPodBecomesAvailableByTimeWithoutEvent(t *testing.T) {
	l := newFixture(t)
	l.createCell()
	l.createProtector(func(s *v1alpha1.PodProtectorSpec) { s.MinReadySeconds = 3 })
	var pods []*corev1.Pod
	for i := range 7 {
		pods = append(pods, l.createPod(fmt.Sprint("web-", i), false))
	}
	l.run("a")
	l.wantSummary(v1alpha1.Summary{Total: 7, Running: 7, Scheduled: 7})
	for _, p := range pods[:4] {
		l.setReady(p, true)
	}
	l.wantSummary(v1alpha1.Summary{Total: 7, Ready: 4, Running: 7, Scheduled: 7})
	p := l.wantSummary(v1alpha1.Summary{Total: 7, Available: 4, EstimatedAvailable: 4, Ready: 4, Running: 7, Scheduled: 7})
	if age := p.Status.Cells[0].Aggregation.LastEventTime.Sub(pods[0].Status.Conditions[0].LastTransitionTime.Time); age < 3*time.Second {
		t.Errorf("counted as available after %v, want 3 s", age)
	}
	if p.Status.DisruptionsAllowed != 3 || p.Status.DesiredAvailable != 1 {
		t.Errorf("%d disruptions allowed above a floor of %d, want 3 above 1", p.Status.DisruptionsAllowed, p.Status.DesiredAvailable)
	}
}

// The clock of the aggregator's machine is set back, and then ahead.
func TestClockStepDoesNotMakePodAvailable(t *testing.T) {
	l := newFixture(t)
	var ahead atomic.Int64
	ahead.Store(int64(time.Hour))
	l.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	l.createCell()
	l.createProtector(func(s *v1alpha1.PodProtectorSpec) { s.MinReadySeconds = 600 })
	l.createPod("web-0", true)
	l.run("a")
	l.wantSummary(v1alpha1.Summary{Total: 1, Available: 1, EstimatedAvailable: 1, Ready: 1, Running: 1, Scheduled: 1})
	ahead.Store(0)
	l.wantSummary(v1alpha1.Summary{Total: 1, Ready: 1, Running: 1, Scheduled: 1})
	ahead.Store(int64(time.Hour))
	l.createPod("web-1", false)
	l.wantSummary(v1alpha1.Summary{Total: 2, Ready: 1, Running: 2, Scheduled: 2})
}

// reserve changes the status as a webhook does.
func (l *fixture) reserve(removals ...quota.Removal) {
	l.Helper()
	l.eventually(func() string {
		p := l.protector()
		for _, v := range quota.Decide(p, removals) {
			if !v.Outcome.Admitted() {
				l.Fatalf("not admitted: %+v of %+v", v, p.Status)
			}
		}
		for _, r := range removals {
			quota.Compact(p, r.Cell, time.Now())
		}
		quota.Summarize(p)
		if err := l.client.Status().Update(l.Context(), p); err != nil {
			return err.Error()
		}
		return ""
	})
}

func removalOf(cell string, p *corev1.Pod) quota.Removal {
	return quota.Removal{Cell: cell, PodUID: p.UID, PodName: p.Name, Operation: v1alpha1.OperationDelete, At: time.Now()}
}

func TestReservationsSettleByStateOfTheirPods(t *testing.T) {
	for _, threshold := range []int32{100, 0} {
		t.Run(fmt.Sprint("compactThreshold ", threshold), func(t *testing.T) {
			l := newFixture(t)
			l.create(&v1alpha1.Cell{
				ObjectMeta: metav1.ObjectMeta{Name: l.cell},
				Spec:       v1alpha1.CellSpec{AdmissionDeadline: &metav1.Duration{Duration: 5 * time.Second}},
			})
			l.createProtector(func(s *v1alpha1.PodProtectorSpec) { s.AdmissionHistory.CompactThreshold = &threshold })
			removed, denied := l.createPod("removed", true), l.createPod("refused", true)
			for i := range 3 {
				l.createPod(fmt.Sprint("web-", i), true)
			}
			spans := l.recordSpans()
			l.run("a")
			l.wantSummary(v1alpha1.Summary{Total: 5, Available: 5, EstimatedAvailable: 5, Ready: 5, Running: 5, Scheduled: 5})

			stray := removed.DeepCopy()
			stray.Name, stray.UID = "stray", "never-existed"
			l.reserve(removalOf(l.cell, removed), removalOf(l.cell, denied), removalOf(l.cell, stray))
			grace := int64(0)
			if err := l.client.Delete(t.Context(), removed, &client.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
				t.Fatal(err)
			}
			// The event settles the removed pod, a live read the one that never existed. The refused one stays ...
			l.wantSummary(v1alpha1.Summary{Total: 4, Available: 4, Reserved: 1, EstimatedAvailable: 3, Ready: 4, Running: 4, Scheduled: 4})
			// ... until its request can no longer succeed.
			l.wantSummary(v1alpha1.Summary{Total: 4, Available: 4, EstimatedAvailable: 4, Ready: 4, Running: 4, Scheduled: 4})
			l.wantRounds(spans)
		})
	}
}

func TestNewLeaderRaisesEpoch(t *testing.T) {
	l := newFixture(t)
	l.createCell()
	l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	l.createPod("web-0", true)
	one := v1alpha1.Summary{Total: 1, Available: 1, EstimatedAvailable: 1, Ready: 1, Running: 1, Scheduled: 1}
	stop := l.run("a")
	first := l.wantSummary(one).Status.Cells[0].Aggregation
	stop()
	l.run("b")
	l.eventually(func() string {
		if second := l.protector().Status.Cells[0].Aggregation; second.Epoch <= first.Epoch || second.Holder != "b" {
			return fmt.Sprintf("aggregation of the next leader: %+v", second)
		}
		return ""
	})
	l.eventually(func() string {
		cell := &v1alpha1.Cell{}
		if err := l.client.Get(t.Context(), client.ObjectKey{Name: l.cell}, cell); err != nil {
			return err.Error()
		}
		if a := cell.Status.Aggregator; a.Holder != "b" || a.LastHeartbeat == nil || cell.Status.Protectors < 1 {
			return fmt.Sprintf("status of the cell: %+v", cell.Status)
		}
		return ""
	})
}

func TestAggregatorLeadsCellCreatedLater(t *testing.T) {
	l := newFixture(t)
	l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	l.run("a")
	l.createCell()
	// There is not a single pod: the webhook must see that the cell has none.
	l.wantSummary(v1alpha1.Summary{})
}

func TestChangedSelectorIsRecounted(t *testing.T) {
	l := newFixture(t)
	l.createCell()
	l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	l.createPod("web-0", true)
	l.run("a")
	l.wantSummary(v1alpha1.Summary{Total: 1, Available: 1, EstimatedAvailable: 1, Ready: 1, Running: 1, Scheduled: 1})
	l.eventually(func() string {
		p := l.protector()
		p.Spec.Selector.MatchLabels["app"] = "other"
		if err := l.client.Update(t.Context(), p); err != nil {
			return err.Error()
		}
		return ""
	})
	p := l.wantSummary(v1alpha1.Summary{})
	if got, want := p.Status.Cells[0].Aggregation.CountedSpec, quota.CountedSpec(&p.Spec); got != want {
		t.Errorf("counted by spec %s, want %s", got, want)
	}
}

// The clock is stepped an hour ahead while the process runs. Pods must not count as older when it becomes the leader.
func TestLeadershipIgnoresEarlierClockStep(t *testing.T) {
	l := newFixture(t)
	var ahead atomic.Int64
	l.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	l.createProtector(func(spec *v1alpha1.PodProtectorSpec) { spec.MinReadySeconds = 600 })
	l.createPod("web-0", true)
	l.run("a")
	ahead.Store(int64(time.Hour))
	l.createCell()
	l.wantSummary(v1alpha1.Summary{Total: 1, Ready: 1, Running: 1, Scheduled: 1})
}
