package reserve

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// opSpans holds the spans of an operation: of all of it, and of its wait for a batch, which the batch ends.
type opSpans struct{ op, wait trace.Span }

// operationTracer traces the operations on the protectors of a core. A method that takes a step runs it within a span and returns
// its result.
type operationTracer struct {
	core string
	// tracer creates spans; nil creates none.
	tracer *tracing.Tracer
}

// startReserve starts the span of a reservation. end ends it with the verdict of the protector.
func (t *operationTracer) startReserve(ctx context.Context, key types.NamespacedName) (_ context.Context, end func(opResult, error)) {
	ctx, span := t.tracer.Step(ctx, tracing.SpanReserve)
	return ctx, func(result opResult, err error) {
		defer span.End()
		t.setAttributes(span, key)
		tracing.RecordError(span, err)
		if span.IsRecording() && err == nil {
			span.SetAttributes(attribute.String(tracing.Verdict, string(result.verdict.Outcome)))
		}
	}
}

// traceGiveBack traces that a reservation is given back.
func (t *operationTracer) traceGiveBack(
	ctx context.Context, key types.NamespacedName, giveBack func(context.Context) (opResult, error),
) (opResult, error) {
	ctx, span := t.tracer.Step(ctx, tracing.SpanGiveBack)
	defer span.End()
	result, err := giveBack(ctx)
	t.setAttributes(span, key)
	tracing.RecordError(span, err)
	return result, err
}

// startWait starts the wait span of an operation, for the span of ctx; nil when that is not recorded. end ends it if the
// caller gives up before its batch starts.
func (t *operationTracer) startWait(ctx context.Context) (s *opSpans, end func()) {
	span := t.tracer.Of(ctx)
	if !span.IsRecording() {
		return nil, func() {}
	}
	_, waiting := t.tracer.Step(ctx, tracing.SpanWait)
	return &opSpans{op: span, wait: waiting}, func() { waiting.End() }
}

// traceBatch traces a batch, on behalf of all its recorded operations, and ends their wait spans.
func (t *operationTracer) traceBatch(
	ctx context.Context, key types.NamespacedName, ops []historyOp, flush func(context.Context) ([]opResult, error),
) ([]opResult, error) {
	if t.tracer == nil {
		return flush(ctx)
	}
	var spans []trace.Span
	for _, op := range ops {
		if op.spans == nil || len(spans) > 0 && spans[len(spans)-1] == op.spans.op { // forwarded operations of one batch share their spans
			continue
		}
		op.spans.wait.End()
		spans = append(spans, op.spans.op)
	}
	ctx, span := t.tracer.StartShared(ctx, tracing.SpanBatch, spans)
	defer span.End()
	t.setAttributes(span, key)
	if span.IsRecording() {
		span.SetAttributes(attribute.Int(tracing.BatchSize, len(ops)))
	}
	results, err := flush(ctx)
	tracing.RecordError(span, err)
	return results, err
}

// traceWrite traces a status write.
func (t *operationTracer) traceWrite(ctx context.Context, write func(context.Context) error) error {
	ctx, span := t.tracer.Call(ctx, tracing.SpanWrite)
	defer span.End()
	err := write(ctx)
	tracing.RecordWriteResult(span, err)
	return err
}

// recordRetry records that a batch decides again.
func (t *operationTracer) recordRetry(ctx context.Context) {
	if span := t.tracer.Of(ctx); span.IsRecording() {
		span.AddEvent(tracing.EventRetry)
	}
}

func (t *operationTracer) setAttributes(span trace.Span, key types.NamespacedName) {
	if span.IsRecording() {
		span.SetAttributes(attribute.String(tracing.Core, t.core), attribute.String(tracing.Protector, key.String()))
	}
}
