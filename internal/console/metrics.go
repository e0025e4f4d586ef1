package console

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-k8s/breakwater/internal/console/access"
)

// metrics are listed in docs/reference/metrics.md.
type metrics struct {
	requests *prometheus.CounterVec
	signIns  *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer, sessions *access.Sessions, streams *streams) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_console_requests_total", Help: "Requests, by response code.",
		}, []string{"code"}),
		signIns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_console_sign_ins_total", Help: "Sign-ins, by result: accepted or refused.",
		}, []string{"result"}),
	}
	registry.MustRegister(m.requests, m.signIns, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "breakwater_console_sessions", Help: "Sessions that are signed in.",
	}, func() float64 { return float64(sessions.Count()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "breakwater_console_streams", Help: "Open pages that receive live updates.",
	}, func() float64 { return float64(streams.count()) }))
	return m
}

// countRequests counts responses by code.
func (m *metrics) countRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		noted := &statusRecorder{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(noted, r)
		m.requests.WithLabelValues(strconv.Itoa(noted.code)).Inc()
	})
}

// statusRecorder records the status code of a response.
type statusRecorder struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (n *statusRecorder) WriteHeader(code int) {
	n.code = code
	n.ResponseWriter.WriteHeader(code)
}

// Unwrap is used by http.ResponseController.
func (n *statusRecorder) Unwrap() http.ResponseWriter { return n.ResponseWriter }
