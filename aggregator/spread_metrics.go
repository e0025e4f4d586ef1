package aggregator

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// maxSpreadSeries is the maximum number of protectors with metrics of their own. Protectors whose pods are not distributed as
// required come first.
const maxSpreadSeries = 1000

// spreadMetrics exports how the pods are distributed, for the protectors whose spec has a spread.
type spreadMetrics struct {
	protectors, satisfied, largest *prometheus.Desc

	records protectorMap[spreadRecord]
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
		m.records.forget(key)
		return
	}
	m.records.set(key, spreadRecord{satisfied.Status, float64(p.Status.Spread.LargestSharePercent) / 100})
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
	for key, record := range m.records.clone() {
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
