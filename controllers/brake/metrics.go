package brake

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
)

const (
	// verdictConfirmed is the verdict of a decrease that a user confirmed.
	verdictConfirmed = "Confirmed"
	// listTimeout bounds how long a scrape waits for a cache that has not synced.
	listTimeout = time.Second
)

// metrics are documented in docs/reference/metrics.md.
type metrics struct {
	decisions *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer, reader client.Reader) *metrics {
	m := &metrics{decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "breakwater_generator_large_decreases_total",
		Help: "Large decreases of floors that took effect, by verdict: Granted within the limit, or Confirmed.",
	}, []string{"verdict"})}
	for _, verdict := range []string{string(brake.Granted), verdictConfirmed} {
		m.decisions.WithLabelValues(verdict) // a rate needs the 0 before the first increment
	}
	registry.MustRegister(m.decisions, &pendingGauge{reader})
	return m
}

// pendingGauge counts the pending decreases at each scrape.
type pendingGauge struct{ reader client.Reader }

func pendingDescription() *prometheus.Desc {
	return prometheus.NewDesc("breakwater_generator_pending_decreases",
		"Protectors whose floor stays in force although a large decrease was requested, by reason.", []string{"reason"}, nil)
}

// Describe implements prometheus.Collector.
func (*pendingGauge) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- pendingDescription()
}

// Collect implements prometheus.Collector.
func (g *pendingGauge) Collect(metrics chan<- prometheus.Metric) {
	counts := map[string]int{v1alpha1.ReasonQuietPeriod: 0, v1alpha1.ReasonLimitExceeded: 0, v1alpha1.ReasonCascade: 0}
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	var list v1alpha1.PodProtectorList
	if err := g.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache has not synced, or has stopped
	}
	for i := range list.Items {
		c := meta.FindStatusCondition(list.Items[i].Status.Conditions, v1alpha1.ConditionDecreasePending)
		if c != nil && c.Status == metav1.ConditionTrue {
			counts[c.Reason]++
		}
	}
	for reason, n := range counts {
		metrics <- prometheus.MustNewConstMetric(pendingDescription(), prometheus.GaugeValue, float64(n), reason)
	}
}
