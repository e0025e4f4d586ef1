package shares

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

func TestShareContactState(t *testing.T) {
	const second = time.Second
	for claim, c := range map[string]struct {
		contact shareContact
		want    string
	}{
		"all shares compared":                             {shareContact{shares: 2, leads: true, led: true}, "Joined"},
		"a share not compared":                            {shareContact{shares: 2, uncompared: 1, leads: true, led: true}, "Returning"},
		"a short silence":                                 {shareContact{shares: 2, leads: true, led: true, silence: 15 * second}, "Joined"},
		"a long silence":                                  {shareContact{shares: 2, leads: true, led: true, silence: 16 * second}, "Local"},
		"a long silence before all were compared":         {shareContact{shares: 2, uncompared: 2, leads: true, led: true, silence: 16 * second}, "Local"},
		"a leadership that a short silence ended":         {shareContact{shares: 2, uncompared: 2, led: true, silence: 11 * second}, "Local"},
		"a leadership that ended while the core answers":  {shareContact{shares: 2, led: true}, ""},
		"a standby that reaches the core":                 {shareContact{shares: 2}, ""},
		"a standby that does not reach it for a moment":   {shareContact{shares: 2, silence: 11 * second}, ""},
		"a standby that does not reach it for longer":     {shareContact{shares: 2, silence: 16 * second}, "Local"},
		"a cell without shares":                           {shareContact{leads: true, led: true}, ""},
		"a cell without shares that does not reach it":    {shareContact{led: true, silence: 60 * second}, ""},
		"a leadership that began before the next silence": {shareContact{shares: 1, uncompared: 1, leads: true, silence: second}, "Returning"},
	} {
		if got := c.contact.state(); got != c.want {
			t.Errorf("%s: state() is %q, want %q", claim, got, c.want)
		}
	}
}

func TestComparedSharesStayComparedUntilRestart(t *testing.T) {
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }
	shares, c := []types.NamespacedName{key("a"), key("b")}, &comparedShares{}
	step := func(what string, want int) {
		t.Helper()
		if got := c.missing(shares); got != want {
			t.Errorf("%s: missing() is %d, want %d", what, got, want)
		}
	}
	step("none compared", 2)
	c.record(key("a"))
	c.record(key("unrelated"))
	step("one compared", 1)
	c.record(key("b"))
	step("both compared", 0)
	shares = append(shares, key("new"))
	step("a new share", 0)
	c.restart()
	step("restarted", 3)
}

// monitoredCell is a monitor with a core that can be unreachable, and the clock of which is set.
type monitoredCell struct {
	*Monitor
	worker    client.Client
	registry  *prometheus.Registry
	isDown    bool
	now       time.Time
	leads     *Keeper
	protector types.NamespacedName
}

func newMonitoredCell(t *testing.T) *monitoredCell {
	share := &v1alpha1.PodProtector{}
	share.Namespace, share.Name = "ns", "web.share-1"
	share.Spec.ShareOf = &v1alpha1.ShareOf{Name: "web", UID: "1", Cell: "one"}
	ofOther := share.DeepCopy()
	ofOther.Name, ofOther.Spec.ShareOf.Cell = "web.share-2", "two"
	cell := &v1alpha1.Cell{}
	cell.Name = "one"
	m := &monitoredCell{registry: prometheus.NewRegistry(), now: time.Unix(1, 0), protector: types.NamespacedName{Namespace: "ns", Name: "web"}}
	m.worker = fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithObjects(share, ofOther, cell).WithStatusSubresource(cell).Build()
	core := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithObjects(cell.DeepCopy()).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if m.isDown {
				return errors.New("connection refused")
			}
			return c.Get(ctx, key, o, options...)
		},
	}).Build()
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "breakwater_aggregator_share_state"}, []string{"state"})
	m.registry.MustRegister(gauge)
	m.Monitor = &Monitor{
		cell: "one", core: core, shares: m.worker, keeper: func() *Keeper { return m.leads }, gauge: gauge,
		monotonic: func() time.Time { return m.now }, log: logr.Discard(), reachedAt: m.now,
	}
	m.lead(t)
	return m
}

func (m *monitoredCell) lead(t *testing.T) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]())
	t.Cleanup(queue.ShutDown)
	m.leads = &Keeper{Cell: "one", Shares: m.worker, Owns: func(string) bool { return true }, Queue: queue, Log: logr.Discard()}
}

// expect observes after a time, and checks the condition and the metric.
func (m *monitoredCell) expect(t *testing.T, after time.Duration, want string) {
	t.Helper()
	m.now = m.now.Add(after)
	if err := m.observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	cell := &v1alpha1.Cell{}
	if err := m.worker.Get(t.Context(), client.ObjectKey{Name: "one"}, cell); err != nil {
		t.Fatal(err)
	}
	reason := ""
	if joined := meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionJoined); joined != nil {
		reason = joined.Reason
		if isTrue := joined.Status == "True"; isTrue != (want == v1alpha1.ReasonJoined) {
			t.Errorf("the condition has status %s with reason %s", joined.Status, joined.Reason)
		}
	}
	if reason != want {
		t.Errorf("the condition has reason %q, want %q", reason, want)
	}
}

func (m *monitoredCell) expectGauge(t *testing.T, want map[string]float64) {
	t.Helper()
	got := map[string]float64{}
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "breakwater_aggregator_share_state" {
			for _, one := range family.GetMetric() {
				got[one.GetLabel()[0].GetValue()] = one.GetGauge().GetValue()
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the metric has %v, want %v", got, want)
	}
}

func TestShareMonitorFollowsAnOutage(t *testing.T) {
	m := newMonitoredCell(t)
	m.expect(t, 0, "Returning")
	m.leads.compared.record(m.protector)
	m.expect(t, 5*time.Second, "Joined")
	m.expectGauge(t, map[string]float64{"Joined": 1, "Local": 0, "Returning": 0})
	m.isDown = true
	m.expect(t, 5*time.Second, "Joined")
	m.leads = nil // the Lease could not be renewed
	m.expect(t, 5*time.Second, "Local")
	m.expectGauge(t, map[string]float64{"Joined": 0, "Local": 1, "Returning": 0})
	m.isDown = false
	m.expect(t, time.Minute, "Local") // no process leads yet
	m.expectGauge(t, map[string]float64{"Joined": 0, "Local": 0, "Returning": 0})
	m.lead(t)
	m.expect(t, 5*time.Second, "Returning")
	m.leads.compared.record(m.protector)
	m.expect(t, 5*time.Second, "Joined")
}

func TestShareMonitorComparesAgainInALeadershipThatOutlivesTheOutage(t *testing.T) {
	m := newMonitoredCell(t)
	m.leads.compared.record(m.protector)
	m.expect(t, 0, "Joined")
	m.isDown = true
	m.expect(t, 16*time.Second, "Local")
	m.isDown = false
	m.expect(t, 5*time.Second, "Returning")
	if got := m.leads.Queue.Len(); got != 1 {
		t.Errorf("%d protectors are queued, want that of the share", got)
	}
	m.leads.compared.record(m.protector)
	m.expect(t, 5*time.Second, "Joined")
}

// Otherwise a standby that is cut off from the core would fight with the leader for the condition.
func TestStandbyLeavesTheConditionToTheLeader(t *testing.T) {
	leader, standby := newMonitoredCell(t), newMonitoredCell(t)
	standby.worker, standby.shares, standby.leads, standby.isDown = leader.worker, leader.worker, nil, true
	leader.leads.compared.record(leader.protector)
	leader.expect(t, 0, "Joined")
	standby.expect(t, 16*time.Second, "Local")
	leader.expect(t, 5*time.Second, "Joined")
	standby.expect(t, 5*time.Second, "Joined")
	standby.expectGauge(t, map[string]float64{"Joined": 0, "Local": 1, "Returning": 0})
}

func TestShareMonitorRemovesTheConditionWithTheLastShare(t *testing.T) {
	m := newMonitoredCell(t)
	m.leads.compared.record(m.protector)
	m.expect(t, 0, "Joined")
	if err := m.worker.DeleteAllOf(t.Context(), &v1alpha1.PodProtector{}, client.InNamespace("ns")); err != nil {
		t.Fatal(err)
	}
	m.expect(t, 5*time.Second, "")
	m.expectGauge(t, map[string]float64{})
}
