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

// Tracer makes spans. A nil one makes none, at no cost: what it returns is not recording, and can be used as any other. Attributes cost
// even when nobody records them: ask IsRecording before.
type Tracer struct {
	spans trace.Tracer
}

// NewTracer makes the spans of a provider.
func NewTracer(provider trace.TracerProvider) *Tracer {
	return &Tracer{spans: provider.Tracer("github.com/breakwater-k8s/breakwater")}
}

// None is the span where there is none.
func None() trace.Span { return trace.SpanFromContext(context.Background()) }

// Root begins a span that needs no other, as of a time.
func (t *Tracer) Root(ctx context.Context, name string, began time.Time) (context.Context, trace.Span) {
	if t == nil {
		return ctx, None()
	}
	return t.spans.Start(ctx, name, trace.WithTimestamp(began))
}

// Serve begins the span of a request that has come in, below that which its headers tell of.
func (t *Tracer) Serve(ctx context.Context, header http.Header, name string) (context.Context, trace.Span) {
	if t == nil {
		return ctx, None()
	}
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
	return t.spans.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
}

// Step begins a span below that of ctx, if that is sampled, which may have ended.
func (t *Tracer) Step(ctx context.Context, name string) (context.Context, trace.Span) {
	return t.below(ctx, name, trace.SpanKindInternal)
}

// Call is as Step, for a request to somebody else.
func (t *Tracer) Call(ctx context.Context, name string) (context.Context, trace.Span) {
	return t.below(ctx, name, trace.SpanKindClient)
}

func (t *Tracer) below(ctx context.Context, name string, kind trace.SpanKind) (context.Context, trace.Span) {
	if !t.Of(ctx).SpanContext().IsSampled() {
		return ctx, None()
	}
	return t.spans.Start(ctx, name, trace.WithSpanKind(kind))
}

// Of is the span of ctx.
func (t *Tracer) Of(ctx context.Context) trace.Span {
	if t == nil {
		return None()
	}
	return trace.SpanFromContext(ctx)
}

// Share begins a span of what is done for several at once, all of which are recorded: below the first, with links to all of them and back.
// For nobody there is none.
func (t *Tracer) Share(ctx context.Context, name string, by []trace.Span) (context.Context, trace.Span) {
	if t == nil || len(by) == 0 {
		return ctx, None()
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

// Fail notes an error on a span; nil is none.
func Fail(span trace.Span, err error) {
	if err == nil || !span.IsRecording() {
		return
	}
	text := err.Error()
	if redacted := webhookconfig.RedactCallers(text); redacted != text {
		text, err = redacted, errors.New(redacted)
	}
	span.RecordError(err)
	span.SetStatus(codes.Error, text)
}
