package webhook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// metrics are listed in docs/reference/metrics.md.
type metrics struct {
	registry  prometheus.Registerer
	reviews   *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	inFlight  prometheus.Gauge
	writes    *prometheus.CounterVec
	givenBack *prometheus.CounterVec
	forwarded *prometheus.CounterVec
	retries   *prometheus.CounterVec
	batchSize prometheus.Histogram
	refusals  *refusalCounter
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		registry: registry,
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
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_webhook_status_writes_total",
			Help: "Status writes by core cluster and result: written, conflict or error.",
		}, []string{"core", "result"}),
		givenBack: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_webhook_given_back_total",
			Help: "Reservations given back because another protector refused or the caller no longer waited, by core cluster.",
		}, []string{"core"}),
		forwarded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_webhook_handed_over_total",
			Help: "Removals that another replica was asked to reserve, by core cluster and result: answered or failed.",
		}, []string{"core", "result"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_webhook_nudges_total",
			Help: "Controllers woken and evictions resumed after budget returned, and pods released to the successor of their deleted controller, by cell, way (wake, evict or release) and result: done or failed.",
		}, []string{"cell", "way", "result"}),
		refusals: newRefusalCounter(),
		batchSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "breakwater_webhook_flight_size", Help: "Removals that one status write decided.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
	}
	registry.MustRegister(m.reviews, m.duration, m.inFlight, m.writes, m.givenBack, m.forwarded, m.retries, m.batchSize, m.refusals.counter)
	return m
}

// forwardResult returns the result label of a hand-over.
func forwardResult(err error) string {
	if err != nil {
		return "failed"
	}
	return "answered"
}

// registerLostProtectors exports the number of protectors of a core cluster that are enforced although they were deleted.
func (m *metrics) registerLostProtectors(core string, lost func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "breakwater_webhook_vanished_protectors",
		Help:        "Protectors that were deleted without being released and stay in force, by core cluster.",
		ConstLabels: prometheus.Labels{"core": core},
	}, func() float64 { return float64(lost()) }))
}

// registerPendingCharges exports the number of pending charges of a core cluster.
func (m *metrics) registerPendingCharges(core string, pending func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "breakwater_webhook_owed_removals",
		Help:        "Break-glass removals that were admitted while no object could record them and are not charged yet, by core cluster.",
		ConstLabels: prometheus.Labels{"core": core},
	}, func() float64 { return float64(pending()) }))
}

// registerTokenExpiry exports when the token for a core cluster expires, if it does.
func (m *metrics) registerTokenExpiry(core string, config *rest.Config) {
	m.registry.MustRegister(&tokenExpiry{config: config, desc: prometheus.NewDesc("breakwater_webhook_core_token_expiry_timestamp_seconds",
		"Expiry of the token in the kubeconfig of a core cluster, in Unix time, by core cluster.", nil, prometheus.Labels{"core": core})})
}

// tokenExpiry collects the expiry of a token. It has no series for a token that does not expire.
type tokenExpiry struct {
	config *rest.Config
	desc   *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (t *tokenExpiry) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- t.desc }

// Collect implements prometheus.Collector.
func (t *tokenExpiry) Collect(to chan<- prometheus.Metric) {
	if at, ok := clusters.TokenExpiry(t.config); ok {
		to <- prometheus.MustNewConstMetric(t.desc, prometheus.GaugeValue, float64(at.Unix()))
	}
}

// registerWaiting exports the number of removals that wait for a write to a core cluster.
func (m *metrics) registerWaiting(core string, waiting func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "breakwater_webhook_removals_waiting",
		Help:        "Removals that wait for a status write of their protector, by core cluster.",
		ConstLabels: prometheus.Labels{"core": core},
	}, func() float64 { return float64(waiting()) }))
}

// newProbe creates and registers a probe that asks a core cluster at the given interval whether it is ready.
func (m *metrics) newProbe(core string, config *rest.Config, interval time.Duration) (*clusters.Probe, error) {
	labels := prometheus.Labels{"core": core}
	p, err := clusters.NewProbe(config, interval,
		prometheus.NewDesc("breakwater_webhook_core_up", "1 while the API server of a core cluster is ready and accepts the credentials of the webhook, "+
			"else 0, by core cluster.", nil, labels),
		prometheus.NewDesc("breakwater_webhook_core_clock_ahead_seconds", "Seconds by which this replica's clock is ahead of the clock of a core cluster, "+
			"by core cluster.", nil, labels))
	if err != nil {
		return nil, err
	}
	return p, m.registry.Register(p)
}
