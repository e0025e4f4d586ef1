package topology

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// metrics are documented in docs/reference/metrics.md. Only the leader exposes them. They are computed at each scrape, from the cache.
type metrics struct {
	reconciler *Reconciler
	// now is the wall clock, by which webhooks record the time of reservations.
	now     func() time.Time
	leading atomic.Bool
	// gauges are the descriptions, by name without the prefix.
	gauges map[string]*prometheus.Desc
}

func newMetrics(r *Reconciler) *metrics {
	m := &metrics{reconciler: r, now: time.Now, gauges: map[string]*prometheus.Desc{}}
	desc := func(name, help string, labels ...string) {
		m.gauges[name] = prometheus.NewDesc("breakwater_"+name, help, labels, nil)
	}
	const cell, protector = "cell", "protector"
	desc("cell_heartbeat_age_seconds",
		"Time since the newest heartbeat of the cell's aggregator was first observed; for a sharded cell, since that of the most silent slot.", cell)
	desc("cell_condition", "Conditions of a Cell by type: 1 is True, 0 False, -1 Unknown.", cell, "condition")
	desc("cell_reservations", "Open reservations of removals in a cell.", cell)
	desc("cell_oldest_reservation_age_seconds", "Age of the oldest open reservation in a cell; 0 when there is none.", cell)
	desc("cell_token_expiry_timestamp_seconds", "When the token of the kubeconfig for a cell's cluster expires, in Unix time.", cell)
	desc("protectors", "Protectors by budget: Open, Exhausted (it admits no removal) or Broken (fewer pods than the floor).", "budget")
	desc("protector_available", "Pods of a protector that are available, in all cells.", protector)
	desc("protector_floor", "Pods of a protector that must stay available.", protector)
	desc("protector_budget", "Available pods of a protector minus its floor and its open reservations.", protector)
	desc("protector_reservations", "Open reservations of a protector.", protector)
	desc("protector_reservation_limit", "Maximum number of open reservations of a protector, if it is limited.", protector)
	desc("protector_oldest_reservation_age_seconds", "Age of the oldest open reservation of a protector; 0 when there is none.", protector)
	desc("protector_pods_above_expected",
		"Pods of a protector that are available and not expected, for longer than a rollout. Protectors without such pods have no series.", protector)
	return m
}

// Start enables the metrics: from now on this process leads, and its cache is filled.
func (m *metrics) Start(ctx context.Context) error {
	m.leading.Store(true)
	defer m.leading.Store(false)
	<-ctx.Done()
	return nil
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range m.gauges {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	if !m.leading.Load() {
		return
	}
	ctx, cells, protectors := context.Background(), &v1alpha1.CellList{}, &v1alpha1.PodProtectorList{}
	if m.reconciler.Client.List(ctx, cells, client.UnsafeDisableDeepCopy) != nil ||
		m.reconciler.Client.List(ctx, protectors, client.UnsafeDisableDeepCopy) != nil {
		return // a filled cache returns no error
	}
	emit := func(name string, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(m.gauges[name], prometheus.GaugeValue, value, labels...)
	}
	summary := summarize(protectors.Items, maxReportedProtectors)
	for i := range cells.Items {
		m.collectCell(&cells.Items[i], &summary, emit)
	}
	for state, number := range summary.byBudget {
		emit("protectors", float64(number), string(state))
	}
	for _, budget := range summary.protectors {
		m.collectProtector(budget, emit)
	}
	for _, e := range excessesOf(protectors.Items, maxReportedProtectors) {
		emit("protector_pods_above_expected", float64(e.pods), e.namespace+"/"+e.name)
	}
}

func (m *metrics) collectCell(cell *v1alpha1.Cell, summary *budgetSummary, emit func(string, float64, ...string)) {
	if age, isKnown := m.reconciler.heartbeatAge(cell); isKnown {
		emit("cell_heartbeat_age_seconds", age.Seconds(), cell.Name)
	}
	for _, condition := range cell.Status.Conditions {
		value := -1.0
		switch condition.Status {
		case metav1.ConditionTrue:
			value = 1
		case metav1.ConditionFalse:
			value = 0
		}
		emit("cell_condition", value, cell.Name, condition.Type)
	}
	if at, ok := m.reconciler.tokenExpiry(cell); ok {
		emit("cell_token_expiry_timestamp_seconds", float64(at.Unix()), cell.Name)
	}
	emit("cell_reservations", float64(summary.reserved[cell.Name]), cell.Name)
	emit("cell_oldest_reservation_age_seconds", m.age(summary.oldest[cell.Name]), cell.Name)
}

func (m *metrics) collectProtector(budget protectorBudget, emit func(string, float64, ...string)) {
	name := budget.namespace + "/" + budget.name
	emit("protector_available", float64(budget.available), name)
	emit("protector_floor", float64(budget.floor), name)
	emit("protector_budget", float64(budget.remaining), name)
	emit("protector_reservations", float64(budget.reserved), name)
	emit("protector_oldest_reservation_age_seconds", m.age(budget.oldest), name)
	if budget.limit > 0 {
		emit("protector_reservation_limit", float64(budget.limit), name)
	}
}

// age returns how many seconds ago a time was; 0 if it is zero, or if it is in the future because another clock is ahead.
func (m *metrics) age(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(m.now().Sub(at).Seconds(), 0)
}

// heartbeatAge returns how long the aggregator of a cell has been silent; for a sharded cell, how long the most silent slot has been. It is
// unknown before the controller has observed the cell.
func (r *Reconciler) heartbeatAge(cell *v1alpha1.Cell) (age time.Duration, isKnown bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := string(cell.UID)
	if r.cellStates[cell.Name].slotHeartbeats == nil {
		at, isKnown := r.heartbeats.Since(key)
		return r.Monotonic().Sub(at), isKnown
	}
	for n := range slot.Count {
		if at, observed := r.heartbeats.Since(slotKey(key, n)); observed {
			age, isKnown = max(age, r.Monotonic().Sub(at)), true
		}
	}
	return age, isKnown
}
