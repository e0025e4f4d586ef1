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

// news records the first event that the next round of a protector handles. The zero value is ready to use. It is safe for concurrent
// use.
type news struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

func (n *news) note(key types.NamespacedName, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.since == nil {
		n.since = map[types.NamespacedName]time.Time{}
	}
	if _, waits := n.since[key]; !waits {
		n.since[key] = now
	}
}

// take returns and removes the time of the first event of a protector. It returns now if there was none, as in a round that only time
// has triggered.
func (n *news) take(key types.NamespacedName, now time.Time) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	since, waits := n.since[key]
	delete(n.since, key)
	if !waits {
		return now
	}
	return since
}

// hear records an event, if rounds are traced.
func (t *term) hear(key types.NamespacedName) {
	if t.options.Tracer != nil {
		t.news.note(key, time.Now())
	}
}

// beginRound starts the span of a round at the event that triggered it.
func (t *term) beginRound(ctx context.Context, key types.NamespacedName) (context.Context, trace.Span) {
	if t.options.Tracer == nil {
		return ctx, tracing.None()
	}
	ctx, span := t.options.Tracer.Root(ctx, tracing.SpanRound, t.news.take(key, time.Now()))
	if span.IsRecording() {
		span.AddEvent(tracing.EventTakenUp)
		span.SetAttributes(attribute.String(tracing.Cell, t.options.Cell), attribute.String(tracing.Protector, key.String()))
	}
	return ctx, span
}

// count is aggregate with a span.
func (t *term) count(ctx context.Context, key types.NamespacedName, p *v1alpha1.PodProtector) (outcome, error) {
	ctx, span := t.options.Tracer.Step(ctx, tracing.SpanCount)
	defer span.End()
	work, err := t.aggregate(ctx, key, p)
	tracing.Fail(span, err)
	if cell := quota.CellOf(p, t.options.Cell); span.IsRecording() && cell != nil {
		span.SetAttributes(attribute.String(tracing.Version, cell.Aggregation.SnapshotVersion))
	}
	return work, err
}

// store writes the status of a protector from which reservations were settled.
func (t *term) store(ctx context.Context, p *v1alpha1.PodProtector, settled *quota.Settled) error {
	ctx, span := t.options.Tracer.Call(ctx, tracing.SpanStore)
	defer span.End()
	began := time.Now()
	err := t.protectors.WriteStatus(ctx, p)
	tracing.Observe(ctx, t.metrics.writeDuration.WithLabelValues(tracing.StoredAs(err)), time.Since(began).Seconds())
	tracing.TellStored(span, err)
	if !span.IsRecording() {
		return err
	}
	span.SetAttributes(
		attribute.Int(tracing.SettledGone, settled.Gone), attribute.Int(tracing.SettledExpired, settled.Expired),
		attribute.Int(tracing.SettledSuperseded, settled.Superseded), attribute.Int(tracing.SettledUpdated, settled.Updated),
		attribute.Int(tracing.SettledOverdue, len(settled.Overdue)), attribute.Int(tracing.SettledRelabeled, settled.Relabeled))
	return err
}
