package scheduling

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

// metrics are listed in docs/reference/metrics.md.
type metrics struct {
	*reviews.Metrics
	spread *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	const subject = "cell"
	of, err := reviews.New(registry, subject, prometheus.CounterOpts{
		Name: "breakwater_scheduling_reviews_total", Help: "Reviews of pods and templates by cell and reason, without dry runs. Only Rejected refuses.",
	}, prometheus.HistogramOpts{
		Name: "breakwater_scheduling_review_duration_seconds", Help: "Time to answer a review of a pod or template, by cell, without dry runs.",
	})
	if err != nil {
		return nil, err
	}
	m := &metrics{Metrics: of, spread: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "breakwater_scheduling_spread_injections_total",
		Help: "Reviews of pods that were given a constraint for the spread of a PodProtector, by cell, without dry runs.",
	}, []string{subject})}
	return m, reviews.Register(registry, m.spread)
}

// observe counts an answer about an object of a cell.
func (m *metrics) observe(ctx context.Context, cell string, answer *Answer, took time.Duration) {
	m.Observe(ctx, cell, string(answer.Reason), took)
	if answer.Denial == "" && len(answer.spreadingProtectors()) > 0 {
		m.spread.WithLabelValues(cell).Inc()
	}
}
