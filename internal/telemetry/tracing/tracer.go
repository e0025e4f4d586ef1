package tracing

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// Tracer creates spans. A nil Tracer creates none, at no cost: it returns spans that do not record but are otherwise usable. Attributes
// are expensive even if the span does not record them: check IsRecording first.
type Tracer struct {
	spans trace.Tracer
}

// NewTracer creates a Tracer of a provider.
func NewTracer(provider trace.TracerProvider) *Tracer {
	return &Tracer{spans: provider.Tracer("github.com/breakwater-k8s/breakwater")}
}

// NoopSpan returns a span that does not record.
func NoopSpan() trace.Span { return trace.SpanFromContext(context.Background()) }

// Root starts a span at a given time. It needs no parent.
func (t *Tracer) Root(ctx context.Context, name string, began time.Time) (context.Context, trace.Span) {
	if t == nil {
		return ctx, NoopSpan()
	}
	return t.spans.Start(ctx, name, trace.WithTimestamp(began))
}

// Serve starts the server span of an incoming request, as a child of the span in its headers.
func (t *Tracer) Serve(ctx context.Context, header http.Header, name string) (context.Context, trace.Span) {
	if t == nil {
		return ctx, NoopSpan()
	}
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
	return t.spans.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
}

// Step starts a child of the span of ctx, if that is sampled. The parent may have ended.
func (t *Tracer) Step(ctx context.Context, name string) (context.Context, trace.Span) {
	return t.child(ctx, name, trace.SpanKindInternal)
}

// Call is like Step, for a request to another process.
func (t *Tracer) Call(ctx context.Context, name string) (context.Context, trace.Span) {
	return t.child(ctx, name, trace.SpanKindClient)
}

func (t *Tracer) child(ctx context.Context, name string, kind trace.SpanKind) (context.Context, trace.Span) {
	if !t.Of(ctx).SpanContext().IsSampled() {
		return ctx, NoopSpan()
	}
	return t.spans.Start(ctx, name, trace.WithSpanKind(kind))
}

// Of returns the span of ctx.
func (t *Tracer) Of(ctx context.Context) trace.Span {
	if t == nil {
		return NoopSpan()
	}
	return trace.SpanFromContext(ctx)
}

// StartShared starts a span for work that serves several recorded spans. It is a child of the first, and has links to and from all of them.
// Without such spans it starts none.
func (t *Tracer) StartShared(ctx context.Context, name string, by []trace.Span) (context.Context, trace.Span) {
	if t == nil || len(by) == 0 {
		return ctx, NoopSpan()
	}
	links := make([]trace.Link, len(by))
	for i, span := range by {
		links[i] = trace.Link{SpanContext: span.SpanContext()}
	}
	ctx, shared := t.spans.Start(trace.ContextWithSpan(ctx, by[0]), name, trace.WithLinks(links...))
	for _, span := range by {
		span.AddLink(trace.Link{SpanContext: shared.SpanContext()})
	}
	return ctx, shared
}

// RecordError records an error on a span. It ignores nil.
func RecordError(span trace.Span, err error) {
	if err == nil || !span.IsRecording() {
		return
	}
	text := err.Error()
	if redacted := webhookconfig.RedactCallerTokens(text); redacted != text {
		text, err = redacted, errors.New(redacted)
	}
	span.RecordError(err)
	span.SetStatus(codes.Error, text)
}
