package scheduling

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// unknown stands for all cells that are none of the webhook's.
const unknown = "unknown"

// metrics are listed in docs/metrics.md.
type metrics struct {
	reviews  *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_scheduling_reviews_total", Help: "Reviews of pods and templates by cell and reason, without dry runs. All but Rejected were allowed.",
		}, []string{"cell", "reason"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "breakwater_scheduling_review_duration_seconds", Help: "Time to answer a review of a pod or template, by cell, without dry runs.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 14),
		}, []string{"cell"}),
	}
	for _, c := range []prometheus.Collector{m.reviews, m.duration} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) observe(cell string, reason Reason, took time.Duration) {
	m.reviews.WithLabelValues(cell, string(reason)).Inc()
	m.duration.WithLabelValues(cell).Observe(took.Seconds())
}
