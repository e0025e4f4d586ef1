package webhook

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// opSpans holds the spans of an operation: of all of it, and of its wait for a batch, which the batch ends.
type opSpans struct{ op, wait trace.Span }

// startWaitSpan starts the wait span of an operation, for the span of ctx; nil when that is not recorded. leave ends it if the
// caller gives up before its batch starts.
func (c *core) startWaitSpan(ctx context.Context) (s *opSpans, end func()) {
	span := c.tracer.Of(ctx)
	if !span.IsRecording() {
		return nil, func() {}
	}
	_, waiting := c.tracer.Step(ctx, tracing.SpanWait)
	return &opSpans{op: span, wait: waiting}, func() { waiting.End() }
}

// enqueue submits an operation to the next batch for a protector.
func (c *core) enqueue(ctx context.Context, key types.NamespacedName, a historyOp) (opResult, error) {
	spans, end := c.startWaitSpan(ctx)
	defer end()
	a.spans = spans
	return c.batches.Do(ctx, key, a)
}

// giveBack gives a reservation back.
func (c *core) giveBack(ctx context.Context, key types.NamespacedName, back historyOp) (opResult, error) {
	ctx, span := c.tracer.Step(ctx, tracing.SpanGiveBack)
	defer span.End()
	answer, err := c.enqueue(ctx, key, back)
	c.setProtectorAttributes(span, key)
	tracing.RecordError(span, err)
	return answer, err
}

// startBatchSpan starts the span of a batch, on behalf of all its recorded operations, and ends their wait spans.
func (c *core) startBatchSpan(ctx context.Context, key types.NamespacedName, ops []historyOp) (context.Context, trace.Span) {
	if c.tracer == nil {
		return ctx, tracing.NoopSpan()
	}
	var spans []trace.Span
	for _, a := range ops {
		if a.spans == nil || len(spans) > 0 && spans[len(spans)-1] == a.spans.op { // forwarded operations of one batch share their spans
			continue
		}
		a.spans.wait.End()
		spans = append(spans, a.spans.op)
	}
	ctx, span := c.tracer.StartShared(ctx, tracing.SpanBatch, spans)
	c.setProtectorAttributes(span, key)
	if span.IsRecording() {
		span.SetAttributes(attribute.Int(tracing.BatchSize, len(ops)))
	}
	return ctx, span
}

// write stores the status of a protector.
func (c *core) write(ctx context.Context, p *v1alpha1.PodProtector) error {
	ctx, span := c.tracer.Call(ctx, tracing.SpanWrite)
	defer span.End()
	err := c.protectors.WriteStatus(ctx, p)
	tracing.RecordWriteResult(span, err)
	return err
}

// recordRetry records that a batch decides again.
func (c *core) recordRetry(ctx context.Context) {
	if span := c.tracer.Of(ctx); span.IsRecording() {
		span.AddEvent(tracing.EventRetry)
	}
}

func (c *core) setProtectorAttributes(span trace.Span, key types.NamespacedName) {
	if span.IsRecording() {
		span.SetAttributes(attribute.String(tracing.Core, c.name), attribute.String(tracing.Protector, key.String()))
	}
}

// recordReservation records the answer of a protector.
func (c *core) recordReservation(span trace.Span, key types.NamespacedName, answer opResult, err error) {
	c.setProtectorAttributes(span, key)
	tracing.RecordError(span, err)
	if span.IsRecording() && err == nil {
		span.SetAttributes(attribute.String(tracing.Verdict, string(answer.verdict.Outcome)))
	}
}

// recordRequest records the requested removal.
func recordRequest(span trace.Span, r removal.Request) {
	if span.IsRecording() {
		span.SetAttributes(attribute.String(tracing.Namespace, r.Namespace), attribute.String(tracing.PodName, r.PodName),
			attribute.String(tracing.PodUID, string(r.Pod.UID)), attribute.Bool(tracing.DryRun, r.DryRun))
	}
}

// recordAnswer records the answer to a review.
func recordAnswer(span trace.Span, cell string, answer removal.Answer) {
	if !span.IsRecording() {
		return
	}
	span.AddEvent(tracing.EventDecided)
	span.SetAttributes(attribute.String(tracing.Cell, cell), attribute.String(tracing.Operation, string(answer.Operation)),
		attribute.String(tracing.Verdict, string(answer.Verdict)), attribute.Bool(tracing.Allowed, answer.Allowed),
		attribute.StringSlice(tracing.Protectors, slices.Clone(answer.Protectors)))
}
