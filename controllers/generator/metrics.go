package generator

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ownership"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// Metrics are the metrics of the generator, documented in docs/reference/metrics.md. Gauges are meaningful only on the leader, or on each shard for
// its part.
type Metrics struct {
	sources     *prometheus.GaugeVec
	vanished    prometheus.Gauge
	retained    prometheus.Gauge
	unprotected *prometheus.GaugeVec
	writes      *prometheus.CounterVec

	mu           sync.Mutex
	lastOutcomes map[policy.Ref]outcome
}

// NewMetrics registers the metrics, for the slots of a shard; nil means all.
func NewMetrics(registry prometheus.Registerer, slots *ownership.Slots) *Metrics {
	m := &Metrics{
		vanished: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "breakwater_generator_vanished_sources",
			Help: "Protectors that stay in force although their workload vanished: it no longer exists, but was not deleted.",
		}),
		retained: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "breakwater_generator_retained_sources",
			Help: "Workloads whose protectors stay in force although their policy no longer exists.",
		}),
		sources: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "breakwater_generator_protected_sources",
			Help: "Workloads that have a protector.",
		}, []string{"kind"}),
		unprotected: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "breakwater_generator_unprotected_sources",
			Help: "Workloads that request a protector that cannot be created, by reason.",
		}, []string{"reason"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_generator_protector_writes_total",
			Help: "Protectors that were created, updated (after a change of the workload, or to correct drift) or released.",
		}, []string{"operation"}),
		lastOutcomes: map[policy.Ref]outcome{},
	}
	owned := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "breakwater_generator_slots", Help: "Namespace slots that this shard owns; 0 without --ring.",
	}, func() float64 {
		if slots == nil {
			return 0
		}
		return float64(slots.SlotCount())
	})
	if slots != nil {
		slots.OnRelease(m.dropSlots)
	}
	registry.MustRegister(m.sources, m.vanished, m.retained, m.unprotected, m.writes, owned)
	for _, operation := range []string{"create", "update", "release"} {
		m.writes.WithLabelValues(operation)
	}
	for _, kind := range AllKinds() {
		m.gauge(protected, kind.Kind).Set(0)
	}
	for _, result := range []outcome{nameTaken, denied} {
		m.gauge(result, "").Set(0)
	}
	return m
}

// observe counts a source by its newest outcome. An outcome that does not determine its state leaves the count unchanged.
func (m *Metrics) observe(source policy.Ref, result outcome) {
	if result == "" || result == outdated {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if before := m.gauge(m.lastOutcomes[source], source.Kind); before != nil {
		before.Dec()
	}
	delete(m.lastOutcomes, source)
	if now := m.gauge(result, source.Kind); now != nil {
		now.Inc()
		m.lastOutcomes[source] = result
	}
}

// dropSlots stops counting the sources of slots that another shard takes over.
func (m *Metrics) dropSlots(slots slot.Set) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for source, result := range m.lastOutcomes {
		if slots.Has(slot.Of(source.Namespace)) {
			m.gauge(result, source.Kind).Dec() // lastOutcomes has only counted outcomes
			delete(m.lastOutcomes, source)
		}
	}
}

// gauge returns the gauge that counts the sources of an outcome; nil if they are not counted.
func (m *Metrics) gauge(result outcome, kind string) prometheus.Gauge {
	switch result {
	case protected:
		return m.sources.WithLabelValues(kind)
	case sourceVanished:
		return m.vanished
	case retained:
		return m.retained
	case nameTaken, denied:
		return m.unprotected.WithLabelValues(string(result))
	default:
		return nil
	}
}
