package tracing

import (
	"context"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// outbox limits the number of spans that wait for the collector. It drops and counts a span that does not fit, instead of waiting.
type outbox struct {
	// SpanProcessor sends the spans in batches. Its queue has the same size as the outbox, so that it drops none itself.
	sdktrace.SpanProcessor
	room  int64
	held  atomic.Int64
	spans *prometheus.CounterVec
}

// OnEnd implements sdktrace.SpanProcessor.
func (o *outbox) OnEnd(span sdktrace.ReadOnlySpan) {
	if !span.SpanContext().IsSampled() {
		return
	}
	if o.held.Add(1) > o.room {
		o.held.Add(-1)
		o.spans.WithLabelValues("dropped").Inc()
		return
	}
	o.SpanProcessor.OnEnd(span)
}

// post exports the spans of an outbox. It counts the results, and logs when they change.
type post struct {
	sdktrace.SpanExporter
	outbox *outbox
	log    logr.Logger
	// failing reports whether the last export failed. Only one goroutine exports spans.
	failing bool
}

// ExportSpans implements sdktrace.SpanExporter. It logs an error instead of returning it.
func (p *post) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	defer p.outbox.held.Add(int64(-len(spans)))
	err := p.SpanExporter.ExportSpans(ctx, spans)
	result := "exported"
	if err != nil {
		result = "failed"
	}
	p.outbox.spans.WithLabelValues(result).Add(float64(len(spans)))
	switch {
	case err != nil && !p.failing:
		p.log.Info("The collector does not take traces", "reason", err.Error())
	case err == nil && p.failing:
		p.log.Info("The collector takes traces again")
	}
	p.failing = err != nil
	return nil
}

func newSpanCounter() *prometheus.CounterVec {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "breakwater_trace_spans_total",
		Help: "Spans by result: exported, failed (the collector did not take them) or dropped (too many waited for it).",
	}, []string{"result"})
	for _, result := range []string{"exported", "failed", "dropped"} {
		spans.WithLabelValues(result)
	}
	return spans
}
