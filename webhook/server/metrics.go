package server

import (
	"crypto/tls"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are listed in docs/reference/metrics.md.
type metrics struct {
	overloads          prometheus.Counter
	evictedConnections prometheus.Counter
	// unauthenticated counts requests without a valid caller token.
	unauthenticated *prometheus.CounterVec
	expiry          *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		overloads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "breakwater_webhook_overloads_total",
			Help: "Reviews rejected unread because too many bytes of reviews were in memory.",
		}),
		evictedConnections: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "breakwater_webhook_evicted_connections_total",
			Help: "Connections that were closed for new ones because too many were open.",
		}),
		unauthenticated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_webhook_unauthenticated_requests_total",
			Help: "Requests without a valid caller token, by caller (cells/NAME, cores/NAME or unknown) and verdict: accepted or refused.",
		}, []string{"caller", "verdict"}),
		expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "breakwater_webhook_certificate_expiry_timestamp_seconds", Help: "Expiry of the serving certificate, in Unix time.",
		}, nil),
	}
	registry.MustRegister(m.overloads, m.evictedConnections, m.unauthenticated, m.expiry)
	return m
}

// setCertificateExpiry exports the expiry of the certificate that is served from now on.
func (m *metrics) setCertificateExpiry(certificate tls.Certificate) {
	if leaf := certificate.Leaf; leaf != nil {
		m.expiry.WithLabelValues().Set(float64(leaf.NotAfter.Unix()))
	}
}
