// Package reviews tells by metrics how the reviews of a webhook were answered, and how long that took.
package reviews

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// Unknown stands for all subjects that do not exist: a client must not be able to make labels.
const Unknown = "unknown"

// Metrics are of reviews about subjects, as cells or rings. They are listed in docs/metrics.md.
type Metrics struct {
	subject  string
	reviews  *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// New registers metrics whose label subject says what a review was about. The error tells of a name that is taken.
func New(registry prometheus.Registerer, subject string, reviews prometheus.CounterOpts, duration prometheus.HistogramOpts) (*Metrics, error) {
	duration.Buckets = prometheus.ExponentialBuckets(0.0001, 2, 14) // seconds
	m := &Metrics{
		subject:  subject,
		reviews:  prometheus.NewCounterVec(reviews, []string{subject, "reason"}),
		duration: prometheus.NewHistogramVec(duration, []string{subject}),
	}
	return m, Register(registry, m.reviews, m.duration)
}

// Register adds metrics to a registry. The error tells of a name that is taken.
func Register(registry prometheus.Registerer, all ...prometheus.Collector) error {
	for _, c := range all {
		if err := registry.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// Observe counts a review that was answered for a reason. Its trace, if that is sampled, is the exemplar.
func (m *Metrics) Observe(ctx context.Context, subject, reason string, took time.Duration) {
	m.reviews.WithLabelValues(subject, reason).Inc()
	tracing.Observe(ctx, m.duration.WithLabelValues(subject), took.Seconds())
}

// Forget drops what is told of a subject that is gone.
func (m *Metrics) Forget(subject string) {
	m.reviews.DeletePartialMatch(prometheus.Labels{m.subject: subject})
	m.duration.DeletePartialMatch(prometheus.Labels{m.subject: subject})
}
