package certificates

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the metrics of the controller, documented in docs/reference/metrics.md. Only those of the leader are meaningful.
type Metrics struct {
	expiry  *prometheus.GaugeVec
	trusted prometheus.Gauge
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "breakwater_certificates_expiry_timestamp_seconds",
			Help: "When a certificate expires, in Unix time.",
		}, []string{"certificate"}),
		trusted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "breakwater_certificates_trusted_authorities",
			Help: "Certificate authorities that API servers must trust; more than one while certificates are rotated.",
		}),
	}
	registry.MustRegister(m.expiry, m.trusted)
	return m
}

func (m *Metrics) observe(s State) {
	m.expiry.WithLabelValues("authority").Set(float64(expiryOf(s.Authority).Unix()))
	m.expiry.WithLabelValues("serving").Set(float64(expiryOf(s.Serving).Unix()))
	m.trusted.Set(float64(len(parseAll(s.Trusted))))
}
