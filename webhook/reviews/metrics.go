// Package reviews has what all handlers of reviews share: how long an answer may take, what is known of the caller, and metrics of the answers.
package reviews

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// Unknown is the label of all subjects that do not exist, so that a client cannot create time series.
const Unknown = "unknown"

// Metrics count reviews by subject, such as a cell or a ring. They are listed in docs/reference/metrics.md.
type Metrics struct {
	subject  string
	reviews  *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// New registers metrics with the label subject, which names what a review was about. It returns an error if a metric
// name is taken.
func New(registry prometheus.Registerer, subject string, reviews prometheus.CounterOpts, duration prometheus.HistogramOpts) (*Metrics, error) {
	duration.Buckets = prometheus.ExponentialBuckets(0.0001, 2, 14) // seconds
	m := &Metrics{
		subject:  subject,
		reviews:  prometheus.NewCounterVec(reviews, []string{subject, "reason"}),
		duration: prometheus.NewHistogramVec(duration, []string{subject}),
	}
	return m, Register(registry, m.reviews, m.duration)
}

// Register adds metrics to a registry. It returns an error if a metric name is taken.
func Register(registry prometheus.Registerer, all ...prometheus.Collector) error {
	for _, c := range all {
		if err := registry.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// Observe counts a review with the reason of its answer. It attaches the trace as an exemplar, if the trace is sampled.
func (m *Metrics) Observe(ctx context.Context, subject, reason string, took time.Duration) {
	m.reviews.WithLabelValues(subject, reason).Inc()
	tracing.Observe(ctx, m.duration.WithLabelValues(subject), took.Seconds())
}

// Delete deletes the series of a deleted subject.
func (m *Metrics) Delete(subject string) {
	m.reviews.DeletePartialMatch(prometheus.Labels{m.subject: subject})
	m.duration.DeletePartialMatch(prometheus.Labels{m.subject: subject})
}
