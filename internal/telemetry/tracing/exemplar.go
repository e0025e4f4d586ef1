package tracing

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// exemplarLabel is the label with which tools find the trace of an exemplar.
const exemplarLabel = "trace_id"

// Observe records a value. If the trace of ctx is sampled, it becomes the exemplar.
func Observe(ctx context.Context, metric prometheus.Observer, value float64) {
	span := trace.SpanContextFromContext(ctx)
	if with, ok := metric.(prometheus.ExemplarObserver); ok && span.IsSampled() {
		with.ObserveWithExemplar(value, prometheus.Labels{exemplarLabel: span.TraceID().String()})
		return
	}
	metric.Observe(value)
}
