package tracing

import (
	"context"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// spanQueue limits the number of spans that wait for the collector. It drops and counts a span that does not fit, instead of waiting.
type spanQueue struct {
	// SpanProcessor sends the spans in batches. Its queue has the same size as the outbox, so that it drops none itself.
	sdktrace.SpanProcessor
	capacity int64
	queued   atomic.Int64
	spans    *prometheus.CounterVec
}

// OnEnd implements sdktrace.SpanProcessor.
func (q *spanQueue) OnEnd(span sdktrace.ReadOnlySpan) {
	if !span.SpanContext().IsSampled() {
		return
	}
	if q.queued.Add(1) > q.capacity {
		q.queued.Add(-1)
		q.spans.WithLabelValues("dropped").Inc()
		return
	}
	q.SpanProcessor.OnEnd(span)
}

// countingExporter exports the spans of an outbox. It counts the results, and logs when they change.
type countingExporter struct {
	sdktrace.SpanExporter
	queue *spanQueue
	log   logr.Logger
	// failing reports whether the last export failed. Only one goroutine exports spans.
	failing bool
}

// ExportSpans implements sdktrace.SpanExporter. It logs an error instead of returning it.
func (e *countingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	defer e.queue.queued.Add(int64(-len(spans)))
	err := e.SpanExporter.ExportSpans(ctx, spans)
	result := "exported"
	if err != nil {
		result = "failed"
	}
	e.queue.spans.WithLabelValues(result).Add(float64(len(spans)))
	switch {
	case err != nil && !e.failing:
		e.log.Info("Dropping spans: trace collector unreachable", "reason", err.Error())
	case err == nil && e.failing:
		e.log.Info("Resumed sending spans")
	}
	e.failing = err != nil
	return nil
}

func newSpanCounter() *prometheus.CounterVec {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "breakwater_trace_spans_total",
		Help: "Spans by result: exported, failed (the collector did not accept them) or dropped (the queue was full).",
	}, []string{"result"})
	for _, result := range []string{"exported", "failed", "dropped"} {
		spans.WithLabelValues(result)
	}
	return spans
}
