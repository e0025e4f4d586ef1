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

// recordEvent records an event, if rounds are traced.
func (l *leadership) recordEvent(key types.NamespacedName) {
	if l.options.Tracer != nil {
		l.firstEvents.record(key, time.Now())
	}
}

// beginRound starts the span of a round at the event that triggered it.
func (l *leadership) beginRound(ctx context.Context, key types.NamespacedName) (context.Context, trace.Span) {
	if l.options.Tracer == nil {
		return ctx, tracing.NoopSpan()
	}
	ctx, span := l.options.Tracer.Root(ctx, tracing.SpanRound, l.firstEvents.pop(key, time.Now()))
	if span.IsRecording() {
		span.AddEvent(tracing.EventTakenUp)
		span.SetAttributes(attribute.String(tracing.Cell, l.options.Cell), attribute.String(tracing.Protector, key.String()))
	}
	return ctx, span
}

// aggregateTraced is aggregate with a span.
func (l *leadership) aggregateTraced(ctx context.Context, key types.NamespacedName, p *v1alpha1.PodProtector) (outcome, error) {
	ctx, span := l.options.Tracer.Step(ctx, tracing.SpanCount)
	defer span.End()
	work, err := l.aggregate(ctx, key, p)
	tracing.RecordError(span, err)
	if cell := quota.CellOf(p, l.options.Cell); span.IsRecording() && cell != nil {
		span.SetAttributes(attribute.String(tracing.Version, cell.Aggregation.SnapshotVersion))
	}
	return work, err
}

// storeStatus writes the status of a protector from which reservations were settled.
func (l *leadership) storeStatus(ctx context.Context, p *v1alpha1.PodProtector, settled *quota.Settled) error {
	ctx, span := l.options.Tracer.Call(ctx, tracing.SpanStore)
	defer span.End()
	began := time.Now()
	err := l.protectors.WriteStatus(ctx, p)
	tracing.Observe(ctx, l.metrics.writeDuration.WithLabelValues(tracing.WriteResult(err)), time.Since(began).Seconds())
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
