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

// seat is the spans of one who asks: of all that is done for him, and of his waiting for the flight, which the flight ends.
type seat struct{ asked, waiting trace.Span }

// seatOf begins to wait for a flight, for the span of ctx; nil when that is not recorded. Who leaves before his flight has taken off ends it.
func (c *core) seatOf(ctx context.Context) (s *seat, leave func()) {
	asked := c.tracer.Of(ctx)
	if !asked.IsRecording() {
		return nil, func() {}
	}
	_, waiting := c.tracer.Step(ctx, tracing.SpanWait)
	return &seat{asked: asked, waiting: waiting}, func() { waiting.End() }
}

// ride asks in the next flight to a protector.
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

// takeOff begins the span of a flight, for all who are aboard and recorded, and ends their waiting.
func (c *core) takeOff(ctx context.Context, key types.NamespacedName, asks []ask) (context.Context, trace.Span) {
	if c.tracer == nil {
		return ctx, tracing.None()
	}
	var by []trace.Span
	for _, a := range asks {
		if a.seat == nil || len(by) > 0 && by[len(by)-1] == a.seat.asked { // what is taken over together has one seat
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

// tellRetry notes that a flight decides anew.
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

// tellReserved notes what a protector has answered.
func (c *core) tellReserved(span trace.Span, key types.NamespacedName, answer answer, err error) {
	c.tellProtector(span, key)
	tracing.Fail(span, err)
	if span.IsRecording() && err == nil {
		span.SetAttributes(attribute.String(tracing.Verdict, string(answer.verdict.Outcome)))
	}
}

// tellRequest notes which removal is asked for.
func tellRequest(span trace.Span, r removal.Request) {
	if span.IsRecording() {
		span.SetAttributes(attribute.String(tracing.Namespace, r.Namespace), attribute.String(tracing.PodName, r.PodName),
			attribute.String(tracing.PodUID, string(r.Pod.UID)), attribute.Bool(tracing.DryRun, r.DryRun))
	}
}

// tellAnswer notes the answer to a review.
func tellAnswer(span trace.Span, cell string, answer removal.Answer) {
	if !span.IsRecording() {
		return
	}
	span.AddEvent(tracing.EventDecided)
	span.SetAttributes(attribute.String(tracing.Cell, cell), attribute.String(tracing.Operation, string(answer.Operation)),
		attribute.String(tracing.Verdict, string(answer.Verdict)), attribute.Bool(tracing.Allowed, answer.Allowed),
		attribute.StringSlice(tracing.Protectors, slices.Clone(answer.Protectors)))
}
