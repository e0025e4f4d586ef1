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

// metrics are documented in docs/metrics.md. Only those of the leader are meaningful. They are computed at each scrape, from the cache.
type metrics struct {
	reconciler *Reconciler
	// now is the wall clock, by which webhooks record the time of reservations.
	now     func() time.Time
	leading atomic.Bool

	heartbeat, condition, reservations, oldest      *prometheus.Desc
	expiry                                          *prometheus.Desc
	protectors                                      *prometheus.Desc
	available, floor, budget, reserved, limit, aged *prometheus.Desc
}

func newMetrics(r *Reconciler) *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("breakwater_"+name, help, labels, nil)
	}
	const cell, protector = "cell", "protector"
	return &metrics{
		reconciler: r, now: time.Now,
		heartbeat: desc("cell_heartbeat_age_seconds",
			"How long ago the newest heartbeat of the cell's aggregator was seen first; of a cell that is shared out, of the most silent slot.", cell),
		condition:    desc("cell_condition", "Conditions of a Cell by type: 1 is True, 0 False, -1 Unknown.", cell, "condition"),
		reservations: desc("cell_reservations", "Reservations of removals in a cell that are open.", cell),
		oldest:       desc("cell_oldest_reservation_age_seconds", "Age of the oldest open reservation in a cell; 0 when there is none.", cell),
		expiry:       desc("cell_token_expiry_timestamp_seconds", "When the token of the kubeconfig for a cell's cluster expires, in Unix time.", cell),
		protectors:   desc("protectors", "Protectors by budget: Open, Exhausted (it admits no removal) or Broken (fewer pods than the floor).", "budget"),
		available:    desc("protector_available", "Pods of a protector that are available, in all cells.", protector),
		floor:        desc("protector_floor", "Pods of a protector that must stay available.", protector),
		budget:       desc("protector_budget", "Available pods of a protector less its floor and its open reservations.", protector),
		reserved:     desc("protector_reservations", "Open reservations of a protector.", protector),
		limit:        desc("protector_reservation_limit", "How many reservations of a protector may be open at once, if that is limited.", protector),
		aged:         desc("protector_oldest_reservation_age_seconds", "Age of the oldest open reservation of a protector; 0 when there is none.", protector),
	}
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
	for _, d := range []*prometheus.Desc{
		m.heartbeat, m.condition, m.reservations, m.oldest, m.expiry, m.protectors, m.available, m.floor, m.budget, m.reserved, m.limit, m.aged,
	} {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	if !m.leading.Load() {
		return
	}
	ctx, cells, protectors := context.Background(), &v1alpha1.CellList{}, &v1alpha1.PodProtectorList{}
	if m.reconciler.Client.List(ctx, cells, client.UnsafeDisableDeepCopy) != nil ||
		m.reconciler.Client.List(ctx, protectors, client.UnsafeDisableDeepCopy) != nil {
		return // a filled cache returns no error
	}
	tell := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	books := bookkeep(protectors.Items, mostTold)
	for i := range cells.Items {
		m.tellCell(&cells.Items[i], &books, tell)
	}
	for of, number := range books.byBudget {
		tell(m.protectors, float64(number), string(of))
	}
	for _, a := range books.accounts {
		m.tellProtector(a, tell)
	}
}

func (m *metrics) tellCell(cell *v1alpha1.Cell, books *books, tell func(*prometheus.Desc, float64, ...string)) {
	if age, known := m.reconciler.heartbeatAge(cell); known {
		tell(m.heartbeat, age.Seconds(), cell.Name)
	}
	for _, condition := range cell.Status.Conditions {
		value := -1.0
		switch condition.Status {
		case metav1.ConditionTrue:
			value = 1
		case metav1.ConditionFalse:
			value = 0
		}
		tell(m.condition, value, cell.Name, condition.Type)
	}
	if at, ok := m.reconciler.tokenExpiry(cell); ok {
		tell(m.expiry, float64(at.Unix()), cell.Name)
	}
	tell(m.reservations, float64(books.reserved[cell.Name]), cell.Name)
	tell(m.oldest, m.age(books.oldest[cell.Name]), cell.Name)
}

func (m *metrics) tellProtector(a account, tell func(*prometheus.Desc, float64, ...string)) {
	name := a.namespace + "/" + a.name
	tell(m.available, float64(a.available), name)
	tell(m.floor, float64(a.floor), name)
	tell(m.budget, float64(a.left), name)
	tell(m.reserved, float64(a.reserved), name)
	tell(m.aged, m.age(a.oldest), name)
	if a.limit > 0 {
		tell(m.limit, float64(a.limit), name)
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
func (r *Reconciler) heartbeatAge(cell *v1alpha1.Cell) (age time.Duration, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	whose := string(cell.UID)
	if r.seen[cell.Name].beats == nil {
		at, known := r.pulses.Since(whose)
		return r.Monotonic().Sub(at), known
	}
	for n := range slot.Count {
		if at, observed := r.pulses.Since(pulseOf(whose, n)); observed {
			age, known = max(age, r.Monotonic().Sub(at)), true
		}
	}
	return age, known
}
