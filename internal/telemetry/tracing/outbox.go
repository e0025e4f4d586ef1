package tracing

import (
	"context"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// outbox keeps so many spans that the collector has not taken yet. One that finds no room is dropped and counted: nobody waits.
type outbox struct {
	// SpanProcessor sends them in batches. It has room for as many, and so drops none itself.
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

// post is the way of spans out of an outbox. It counts what becomes of them, and logs when that changes.
type post struct {
	sdktrace.SpanExporter
	outbox *outbox
	log    logr.Logger
	// failing tells that the collector did not take the last ones. Spans are sent by one goroutine.
	failing bool
}

// ExportSpans implements sdktrace.SpanExporter. It returns no error, since it has logged it.
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
