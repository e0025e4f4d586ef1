package nodeguard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

// metrics are those of a guard. None of them names a pod, so any client may read them.
type metrics struct {
	held, registered, requests prometheus.Counter
	ended                      *prometheus.CounterVec
	added                      prometheus.Histogram
	rejected                   *prometheus.GaugeVec
}

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "breakwater_node_" + name, Help: help})
	}
	m := &metrics{
		held:       counter("held_total", "Pods that were held because the API server lost them."),
		registered: counter("registered_total", "Held pods that were registered again."),
		requests:   counter("requests_total", "Requests of the kubelet."),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_node_ended_total", Help: "Held pods that ended without having been registered again.",
		}, []string{"reason"}),
		added: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "breakwater_node_request_added_seconds", Help: "Time that the guard adds to the API server's until a response begins.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .1, 1},
		}),
	}
	m.rejected = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "breakwater_node_rejected_stored_pods", Help: "Stored pods that the guard could not use when it started.",
	}, []string{"reason"})
	for _, reason := range podhold.Rejections() {
		m.rejected.WithLabelValues(string(reason))
	}
	for _, reason := range podhold.Ends() {
		m.ended.WithLabelValues(string(reason))
	}
	return m
}

// register registers all metrics of a guard.
func (m *metrics) register(to prometheus.Registerer, g *Guard, otherCluster func() string) {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "breakwater_node_" + name, Help: help}, value)
	}
	to.MustRegister(m.held, m.registered, m.requests, m.ended, m.added, m.rejected,
		gauge("held_pods", "Pods that the guard holds: the API server does not have them.", func() float64 {
			g.mu.Lock()
			defer g.mu.Unlock()
			return float64(len(g.pods.view.Held()))
		}),
		gauge("unwritten_files", "Files with what the guard knows that could not be written. The guard keeps them in its reserve, and tries again.", func() float64 {
			all, _ := g.store.unwritten()
			return float64(all)
		}),
		gauge("unstored_files", "Unwritten files that the reserve does not keep either: a restart of the guard would lose them.", func() float64 {
			_, lost := g.store.unwritten()
			return float64(lost)
		}),
		gauge("other_cluster", "1 if the API server belongs to another cluster than the node.", func() float64 {
			if otherCluster() != "" {
				return 1
			}
			return 0
		}))
}

func (m *metrics) handler(g *Guard, otherCluster func() string) http.Handler {
	registry := prometheus.NewRegistry()
	m.register(registry, g, otherCluster)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// serveMetrics serves metrics until ctx ends. The guard works without them, so a failure is only logged.
func serveMetrics(ctx context.Context, address string, handler http.Handler, log logr.Logger) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		log.Error(err, "Failed to serve metrics", "address", address)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		log.Error(err, "Failed to serve metrics", "address", address)
	}
}

// timing is how long a request has taken, and how much of that in the API server.
type timing struct {
	started  time.Time
	upstream time.Duration
}

type timingKey struct{}

func withTiming(ctx context.Context) context.Context {
	return context.WithValue(ctx, timingKey{}, &timing{started: time.Now()})
}

// answered records that the response to a request begins.
func (m *metrics) answered(ctx context.Context) {
	if t, ok := ctx.Value(timingKey{}).(*timing); ok {
		m.added.Observe((time.Since(t.started) - t.upstream).Seconds())
	}
}

// timed measures the time of the API server.
type timed struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (u timed) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	response, err := u.RoundTripper.RoundTrip(r)
	if t, ok := r.Context().Value(timingKey{}).(*timing); ok {
		t.upstream = time.Since(began)
	}
	return response, err
}
