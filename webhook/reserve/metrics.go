package reserve

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// Metrics are the metrics of the core clusters. They are listed in docs/reference/metrics.md.
type Metrics struct {
	registry  prometheus.Registerer
	writes    *prometheus.CounterVec
	givenBack *prometheus.CounterVec
	forwarded *prometheus.CounterVec
	inAdvance *prometheus.CounterVec
	batchSize prometheus.Histogram
}

// NewMetrics creates and registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		registry: registry,
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
		inAdvance: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_webhook_admitted_in_advance_total",
			Help: "Removals admitted without waiting for a write, because this replica had reserved in advance, by core cluster.",
		}, []string{"core"}),
		batchSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "breakwater_webhook_flight_size", Help: "Removals that one status write decided.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
	}
	registry.MustRegister(m.writes, m.givenBack, m.forwarded, m.inAdvance, m.batchSize)
	return m
}

// forwardResult returns the result label of a hand-over.
func forwardResult(err error) string {
	if err != nil {
		return "failed"
	}
	return "answered"
}

// RegisterCore registers the metrics that are read from a core when they are collected.
func (m *Metrics) RegisterCore(c *Core, config *rest.Config) {
	labels := prometheus.Labels{"core": c.Name}
	gauge := func(name, help string, value func() int) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return float64(value()) }))
	}
	gauge("breakwater_webhook_removals_waiting", "Removals that wait for a status write of their protector, by core cluster.", c.Waiting)
	gauge("breakwater_webhook_vanished_protectors", "Protectors that were deleted without being released and stay in force, by core cluster.",
		c.States.LostCount)
	gauge("breakwater_webhook_owed_removals",
		"Break-glass removals that were admitted while no object could record them and are not charged yet, by core cluster.", c.Pending.Count)
	m.registry.MustRegister(&tokenExpiry{config: config, desc: prometheus.NewDesc("breakwater_webhook_core_token_expiry_timestamp_seconds",
		"Expiry of the token in the kubeconfig of a core cluster, in Unix time, by core cluster.", nil, labels)})
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

// NewProbe creates and registers a probe that asks a core cluster at the given interval whether it is ready.
func (m *Metrics) NewProbe(core string, config *rest.Config, interval time.Duration) (*clusters.Probe, error) {
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
