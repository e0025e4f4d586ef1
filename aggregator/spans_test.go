package aggregator_test

import (
	"fmt"
	"slices"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// recordSpans records the spans of the next aggregator that runs.
func (l *fixture) recordSpans() *tracetest.SpanRecorder {
	spans := tracetest.NewSpanRecorder()
	l.tracer = tracing.NewTracer(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	return spans
}

// wantRounds waits until two removals, and one that did not take effect, were settled in rounds with spans. Each round starts at an
// event from before the count, and has a write.
func (l *fixture) wantRounds(spans *tracetest.SpanRecorder) {
	l.Helper()
	l.eventually(func() string {
		rounds, counts := map[string]sdktrace.ReadOnlySpan{}, map[string][]sdktrace.ReadOnlySpan{} // a round counts again after a conflict
		for _, span := range spans.Ended() {
			switch span.Name() {
			case tracing.SpanRound:
				rounds[span.SpanContext().SpanID().String()] = span
			case tracing.SpanCount:
				above := span.Parent().SpanID().String()
				counts[above] = append(counts[above], span)
			}
		}
		settled, waited := map[string]int64{}, false
		for _, span := range spans.Ended() {
			above := span.Parent().SpanID().String()
			if span.Name() != tracing.SpanStore || rounds[above] == nil {
				continue
			}
			if !slices.ContainsFunc(counts[above], func(count sdktrace.ReadOnlySpan) bool { return !count.EndTime().After(span.StartTime()) }) {
				return fmt.Sprintf("what round %s writes was not counted before", above)
			}
			taken := rounds[above].Events()[0]
			waited = waited || taken.Name == tracing.EventTakenUp && taken.Time.After(rounds[above].StartTime())
			for _, a := range span.Attributes() {
				settled[string(a.Key)] += a.Value.AsInt64()
			}
		}
		if settled[tracing.SettledGone] != 2 || settled[tracing.SettledExpired] != 1 || !waited {
			return fmt.Sprintf("settled %v, an event has waited: %v, %d rounds", settled, waited, len(rounds))
		}
		return ""
	})
}
