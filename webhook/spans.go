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

// seat holds the spans of an ask: of the whole ask, and of its wait for a batch, which the batch ends.
type seat struct{ asked, waiting trace.Span }

// seatOf starts the wait span of an ask, for the span of ctx; nil when that is not recorded. leave ends it if the
// caller gives up before its batch starts.
func (c *core) seatOf(ctx context.Context) (s *seat, leave func()) {
	asked := c.tracer.Of(ctx)
	if !asked.IsRecording() {
		return nil, func() {}
	}
	_, waiting := c.tracer.Step(ctx, tracing.SpanWait)
	return &seat{asked: asked, waiting: waiting}, func() { waiting.End() }
}

// ride submits an ask to the next batch for a protector.
func (c *core) ride(ctx context.Context, key types.NamespacedName, a ask) (answer, error) {
	seat, leave := c.seatOf(ctx)
	defer leave()
	a.seat = seat
	return c.flights.Do(ctx, key, a)
}

// giveBack gives a reservation back.
func (c *core) giveBack(ctx context.Context, key types.NamespacedName, back ask) (answer, error) {
	ctx, span := c.tracer.Step(ctx, tracing.SpanGiveBack)
	defer span.End()
	answer, err := c.ride(ctx, key, back)
	c.tellProtector(span, key)
	tracing.Fail(span, err)
	return answer, err
}

// takeOff starts the span of a batch, on behalf of all its recorded asks, and ends their wait spans.
func (c *core) takeOff(ctx context.Context, key types.NamespacedName, asks []ask) (context.Context, trace.Span) {
	if c.tracer == nil {
		return ctx, tracing.None()
	}
	var by []trace.Span
	for _, a := range asks {
		if a.seat == nil || len(by) > 0 && by[len(by)-1] == a.seat.asked { // asks that were taken over together share one seat
			continue
		}
		a.seat.waiting.End()
		by = append(by, a.seat.asked)
	}
	ctx, span := c.tracer.Share(ctx, tracing.SpanFlight, by)
	c.tellProtector(span, key)
	if span.IsRecording() {
		span.SetAttributes(attribute.Int(tracing.FlightSize, len(asks)))
	}
	return ctx, span
}

// write stores the status of a protector.
func (c *core) write(ctx context.Context, p *v1alpha1.PodProtector) error {
	ctx, span := c.tracer.Call(ctx, tracing.SpanWrite)
	defer span.End()
	err := c.protectors.WriteStatus(ctx, p)
	tracing.TellStored(span, err)
	return err
}

// tellRetry records that a batch decides again.
func (c *core) tellRetry(ctx context.Context) {
	if span := c.tracer.Of(ctx); span.IsRecording() {
		span.AddEvent(tracing.EventRetry)
	}
}

func (c *core) tellProtector(span trace.Span, key types.NamespacedName) {
	if span.IsRecording() {
		span.SetAttributes(attribute.String(tracing.Core, c.name), attribute.String(tracing.Protector, key.String()))
	}
}

// tellReserved records the answer of a protector.
func (c *core) tellReserved(span trace.Span, key types.NamespacedName, answer answer, err error) {
	c.tellProtector(span, key)
	tracing.Fail(span, err)
	if span.IsRecording() && err == nil {
		span.SetAttributes(attribute.String(tracing.Verdict, string(answer.verdict.Outcome)))
	}
}

// tellRequest records the requested removal.
func tellRequest(span trace.Span, r removal.Request) {
	if span.IsRecording() {
		span.SetAttributes(attribute.String(tracing.Namespace, r.Namespace), attribute.String(tracing.PodName, r.PodName),
			attribute.String(tracing.PodUID, string(r.Pod.UID)), attribute.Bool(tracing.DryRun, r.DryRun))
	}
}

// tellAnswer records the answer to a review.
func tellAnswer(span trace.Span, cell string, answer removal.Answer) {
	if !span.IsRecording() {
		return
	}
	span.AddEvent(tracing.EventDecided)
	span.SetAttributes(attribute.String(tracing.Cell, cell), attribute.String(tracing.Operation, string(answer.Operation)),
		attribute.String(tracing.Verdict, string(answer.Verdict)), attribute.Bool(tracing.Allowed, answer.Allowed),
		attribute.StringSlice(tracing.Protectors, slices.Clone(answer.Protectors)))
}
