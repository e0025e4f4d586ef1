package review

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Metrics are listed in docs/reference/metrics.md.
type Metrics struct {
	// Retries counts what the retrier has done.
	Retries *prometheus.CounterVec

	reviews  *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	denials  *denialCounter
}

// NewMetrics creates and registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_webhook_reviews_total", Help: "Reviews by cell, operation and verdict.",
		}, []string{"cell", "operation", "verdict"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "breakwater_webhook_review_duration_seconds", Help: "Time to answer a review, by cell.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}, []string{"cell"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "breakwater_webhook_reviews_in_flight", Help: "Reviews that are not answered yet.",
		}),
		Retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_webhook_nudges_total",
			Help: "Controllers woken and evictions resumed after budget returned, and pods released to the successor of their deleted controller, by cell, way (wake, evict or release) and result: done or failed.",
		}, []string{"cell", "way", "result"}),
		denials: newDenialCounter(),
	}
	registry.MustRegister(m.reviews, m.duration, m.inFlight, m.Retries, m.denials.counter)
	return m
}

// DropProtector forgets what was counted of a protector that was released.
func (m *Metrics) DropProtector(core string, protector types.NamespacedName) {
	m.denials.drop(core, protector)
}
