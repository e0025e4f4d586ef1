package tracing

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// exemplarLabel is by which tools find the trace of an exemplar.
const exemplarLabel = "trace_id"

// Observe adds to a metric, with the trace of ctx as its exemplar if that is sampled.
func Observe(ctx context.Context, metric prometheus.Observer, value float64) {
	span := trace.SpanContextFromContext(ctx)
	if with, ok := metric.(prometheus.ExemplarObserver); ok && span.IsSampled() {
		with.ObserveWithExemplar(value, prometheus.Labels{exemplarLabel: span.TraceID().String()})
		return
	}
	metric.Observe(value)
}
