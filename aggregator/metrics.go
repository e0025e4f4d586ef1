package aggregator

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// metrics are listed in docs/reference/metrics.md.
type metrics struct {
	leading, epoch, slots, pods, protectors, forceDeletable prometheus.Gauge

	liveReads       prometheus.Counter
	writes, settled *prometheus.CounterVec
	writeDuration   *prometheus.HistogramVec
	spread          *spreadMetrics
	// shareState has one series for each state; none if the cell has no shares.
	shareState *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	register := promauto.With(registry)
	gauge := func(name, help string) prometheus.Gauge {
		return register.NewGauge(prometheus.GaugeOpts{Name: "breakwater_aggregator_" + name, Help: help})
	}
	counter := func(name, help, label string) *prometheus.CounterVec {
		return register.NewCounterVec(prometheus.CounterOpts{Name: "breakwater_aggregator_" + name, Help: help}, []string{label})
	}
	spread := newSpreadMetrics()
	registry.MustRegister(spread)
	return &metrics{
		leading:        gauge("leading", "1 while this process leads its cell, or has slots of it."),
		epoch:          gauge("epoch", "Epoch of the last leadership of this process, or of the slots that it claimed last."),
		slots:          gauge("slots", "Slots of the cell that this shard has, of 256; 0 without --ring."),
		pods:           gauge("pods", "Pods in the snapshot at the last heartbeat."),
		protectors:     gauge("protectors", "Protectors that pods are counted for, at the last heartbeat."),
		forceDeletable: gauge("force_deletable_pods", "Living pods with the annotation breakwater.dev/force-delete, at the last heartbeat."),
		liveReads: register.NewCounter(prometheus.CounterOpts{
			Name: "breakwater_aggregator_live_reads_total",
			Help: "Lists of a namespace, for reservations that the snapshot cannot settle, first counts, and pods that became available by time.",
		}),
		writes:  counter("writes_total", "Status writes by result: written, conflict or error.", "result"),
		settled: counter("settled_total", "Reservations settled by reason: gone, expired, relabeled, superseded, updated or overdue.", "reason"),
		writeDuration: register.NewHistogramVec(prometheus.HistogramOpts{
			Name: "breakwater_aggregator_write_duration_seconds", Help: "Time that a status write took, by result: written, conflict or error.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}, []string{"result"}),
		spread: spread,
		shareState: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "breakwater_aggregator_share_state",
			Help: "1 for the state of the cell's shares, otherwise 0: Joined, Local or Returning; all 0 if another process leads the cell.",
		}, []string{"state"}),
	}
}

// probe registers a periodic readiness probe of the cell. It returns nil if every is 0.
func (*metrics) probe(registry prometheus.Registerer, cell *rest.Config, every time.Duration) (*clusters.Probe, error) {
	if every == 0 {
		return nil, nil
	}
	p, err := clusters.NewProbe(cell, every,
		prometheus.NewDesc("breakwater_aggregator_cell_up", "1 while the API server of the cell is ready and accepts the credentials of the aggregator, else 0.",
			nil, nil),
		prometheus.NewDesc("breakwater_aggregator_cell_clock_ahead_seconds", "How far the local clock is ahead of the clock of the cell's API server.", nil, nil))
	if err != nil {
		return nil, err
	}
	return p, registry.Register(p)
}

// recordSizes records the sizes of a snapshot, and returns its number of pods and of protectors.
func (m *metrics) recordSizes(s *snapshot.Snapshot) (pods, protectors int) {
	pods, protectors = s.Size()
	m.pods.Set(float64(pods))
	m.protectors.Set(float64(protectors))
	m.forceDeletable.Set(float64(s.ForceDeletable()))
	return pods, protectors
}

// countSettled counts the settled reservations.
func (m *metrics) countSettled(done *quota.Settled) {
	for reason, number := range map[string]int{
		"gone": done.Absent, "expired": done.Expired, "relabeled": done.Relabeled, "superseded": done.Superseded, "updated": done.Updated,
		"overdue": len(done.Overdue),
	} {
		m.settled.WithLabelValues(reason).Add(float64(number))
	}
}

// maxSpreadSeries is the maximum number of protectors with metrics of their own. Protectors whose pods are not distributed as
// required come first.
const maxSpreadSeries = 1000

// spreadMetrics exports how the pods are distributed, for the protectors whose spec has a spread.
type spreadMetrics struct {
	protectors, satisfied, largest *prometheus.Desc

	records ownership.Map[spreadRecord]
}

type spreadRecord struct {
	status metav1.ConditionStatus
	// share of the domain with the most pods, from 0 to 1.
	share float64
}

func newSpreadMetrics() *spreadMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("breakwater_aggregator_"+name, help, labels, nil)
	}
	return &spreadMetrics{
		protectors: desc("spread_protectors", "Protectors with spec.spread, by the status of SpreadSatisfied: True, False or Unknown.", "status"),
		satisfied:  desc("spread_satisfied", "Whether the pods of a protector are distributed as its spec requires: 1 yes, 0 no, -1 unknown.", "protector"),
		largest:    desc("spread_largest_domain_ratio", "Share of the pods of a protector in its largest domain, from 0 to 1.", "protector"),
	}
}

// record records the conclusion for a protector.
func (m *spreadMetrics) record(key types.NamespacedName, p *v1alpha1.PodProtector) {
	satisfied := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionSpreadSatisfied)
	if satisfied == nil || p.Status.Spread == nil {
		m.records.Forget(key)
		return
	}
	m.records.Set(key, spreadRecord{satisfied.Status, float64(p.Status.Spread.LargestSharePercent) / 100})
}

// Describe implements prometheus.Collector.
func (m *spreadMetrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.protectors, m.satisfied, m.largest} {
		descriptions <- d
	}
}

// statusValue is the metric value of a status.
func statusValue(status metav1.ConditionStatus) float64 {
	switch status {
	case metav1.ConditionTrue:
		return 1
	case metav1.ConditionFalse:
		return 0
	default:
		return -1
	}
}

// Collect implements prometheus.Collector.
func (m *spreadMetrics) Collect(metrics chan<- prometheus.Metric) {
	type protector struct {
		name string
		spreadRecord
	}
	by := map[metav1.ConditionStatus]int{metav1.ConditionTrue: 0, metav1.ConditionFalse: 0, metav1.ConditionUnknown: 0}
	var all []protector
	for key, record := range m.records.Clone() {
		by[record.status]++
		all = append(all, protector{key.String(), record})
	}
	for status, number := range by {
		metrics <- prometheus.MustNewConstMetric(m.protectors, prometheus.GaugeValue, float64(number), string(status))
	}
	order := []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown, metav1.ConditionTrue}
	slices.SortFunc(all, func(a, b protector) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.status), slices.Index(order, b.status)), cmp.Compare(a.name, b.name))
	})
	for _, p := range all[:min(len(all), maxSpreadSeries)] {
		metrics <- prometheus.MustNewConstMetric(m.satisfied, prometheus.GaugeValue, statusValue(p.status), p.name)
		metrics <- prometheus.MustNewConstMetric(m.largest, prometheus.GaugeValue, p.share, p.name)
	}
}
