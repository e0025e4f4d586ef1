package aggregator

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// firstEvents records the first event that the next round of a protector handles. The zero value is ready to use. It is safe for concurrent
// use.
type firstEvents struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

func (e *firstEvents) record(key types.NamespacedName, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.since == nil {
		e.since = map[types.NamespacedName]time.Time{}
	}
	if _, waits := e.since[key]; !waits {
		e.since[key] = now
	}
}

// pop returns and removes the time of the first event of a protector. It returns now if there was none, as in a round that only time
// has triggered.
func (e *firstEvents) pop(key types.NamespacedName, now time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	since, waits := e.since[key]
	delete(e.since, key)
	if !waits {
		return now
	}
	return since
}

// roundTracer creates the spans of rounds and of their steps. A round begins with the event that triggers it.
type roundTracer struct {
	cell string
	// tracer is nil if rounds are not traced.
	tracer *tracing.Tracer
	events firstEvents
}

// recordEvent records an event, if rounds are traced.
func (t *roundTracer) recordEvent(key types.NamespacedName) {
	if t.tracer != nil {
		t.events.record(key, time.Now())
	}
}

// beginRound starts the span of a round at the event that triggered it.
func (t *roundTracer) beginRound(ctx context.Context, key types.NamespacedName) (context.Context, trace.Span) {
	if t.tracer == nil {
		return ctx, tracing.NoopSpan()
	}
	ctx, span := t.tracer.Root(ctx, tracing.SpanRound, t.events.pop(key, time.Now()))
	if span.IsRecording() {
		span.AddEvent(tracing.EventTakenUp)
		span.SetAttributes(attribute.String(tracing.Cell, t.cell), attribute.String(tracing.Protector, key.String()))
	}
	return ctx, span
}

// count runs the step that counts for a protector, with a span.
func (t *roundTracer) count(ctx context.Context, p *v1alpha1.PodProtector, aggregate func(context.Context) (outcome, error)) (outcome, error) {
	ctx, span := t.tracer.Step(ctx, tracing.SpanCount)
	defer span.End()
	work, err := aggregate(ctx)
	tracing.RecordError(span, err)
	if cell := quota.CellOf(p, t.cell); span.IsRecording() && cell != nil {
		span.SetAttributes(attribute.String(tracing.Version, cell.Aggregation.SnapshotVersion))
	}
	return work, err
}

// store runs the write of a status from which reservations were settled, with a span.
func (t *roundTracer) store(ctx context.Context, settled *quota.Settled, write func(context.Context) error) error {
	ctx, span := t.tracer.Call(ctx, tracing.SpanStore)
	defer span.End()
	err := write(ctx)
	tracing.RecordWriteResult(span, err)
	if !span.IsRecording() {
		return err
	}
	span.SetAttributes(
		attribute.Int(tracing.SettledGone, settled.Absent), attribute.Int(tracing.SettledExpired, settled.Expired),
		attribute.Int(tracing.SettledSuperseded, settled.Superseded), attribute.Int(tracing.SettledUpdated, settled.Updated),
		attribute.Int(tracing.SettledOverdue, len(settled.Overdue)), attribute.Int(tracing.SettledRelabeled, settled.Relabeled))
	return err
}
