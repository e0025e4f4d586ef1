package sharding

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// unknown stands for all rings that do not exist: a client must not be able to make labels.
const unknown = "unknown"

// metrics are listed in docs/metrics.md.
type metrics struct {
	reviews  *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_ring_admission_reviews_total", Help: "Reviews of objects of rings by ring and reason. All of them were allowed.",
		}, []string{"ring", "reason"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "breakwater_ring_admission_duration_seconds", Help: "Time to answer a review of an object of a ring, by ring.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 14),
		}, []string{"ring"}),
	}
	for _, c := range []prometheus.Collector{m.reviews, m.duration} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) observe(ring string, reason Reason, took time.Duration) {
	m.reviews.WithLabelValues(ring, string(reason)).Inc()
	m.duration.WithLabelValues(ring).Observe(took.Seconds())
}

// forget drops what is told of a ring that is deleted.
func (m *metrics) forget(ring string) {
	m.reviews.DeletePartialMatch(prometheus.Labels{"ring": ring})
	m.duration.DeletePartialMatch(prometheus.Labels{"ring": ring})
}
