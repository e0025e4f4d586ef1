package aggregator

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// reconcile brings the cell's part of a protector's status up to date. It decides on the newest object that it has and, after a conflict,
// again on the newest one of the API server.
func (l *leadership) reconcile(ctx context.Context, key types.NamespacedName) error {
	if !l.beginWork(key.Namespace) {
		return nil // another shard counts it
	}
	defer l.endWork(key.Namespace)
	p, err := l.protectors.Newest(ctx, key)
	for {
		if apierrors.IsNotFound(err) {
			l.forget(key)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the protector: %w", err)
		}
		err = l.write(ctx, key, p)
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		l.metrics.writes.WithLabelValues("conflict").Inc()
		p, err = l.protectors.After(ctx, p)
	}
}

// write makes the changes that p needs, if any, in one compare-and-swap.
func (l *leadership) write(ctx context.Context, key types.NamespacedName, p *v1alpha1.PodProtector) error {
	before := p.DeepCopy()
	work, err := l.aggregateTraced(ctx, key, p)
	if err != nil {
		return err
	}
	if work.incomplete {
		l.requeue(key, p, work)
		return nil
	}
	l.drainEntry(p)
	l.summarize(p)
	if !l.canWrite(key.Namespace) {
		return nil
	}
	l.metrics.spread.record(key, p)
	if work.settled.HasAny() || work.becameAvailable || !isUnchanged(before, p, l.options.Cell) {
		err := l.storeStatus(ctx, p, &work.settled)
		if cell := quota.CellOf(p, l.options.Cell); cell != nil && work.settled.HasAny() && !apierrors.IsConflict(err) {
			l.deadlinesOf(key).Prune(&cell.AdmissionHistory)
		}
		if err != nil {
			return err
		}
		l.metrics.countSettled(&work.settled)
		l.metrics.writes.WithLabelValues("written").Inc()
		l.emitOverdueEvent(p, work.settled.Overdue)
		l.emitSpreadEvent(before, p)
	}
	l.requeue(key, p, work)
	return nil
}

// outcome is the result of one aggregation.
type outcome struct {
	settled       quota.Settled
	nextAvailable time.Time
	// becameAvailable reports that a counted pod was not available yet at the time of the stored counts. The counts are then written even if they
	// are unchanged: a webhook whose clock is behind judges the age of pods as of that time or later.
	becameAvailable bool
	// wait requests another round after that time; 0 requests none.
	wait time.Duration
	// retry requests another round after the aggregation rate, because a live read was inconclusive.
	retry bool
	// incomplete reports that the outcome is incomplete: the aggregation must restart after wait.
	incomplete bool
}

// aggregate sets the counts of the cell in p and settles the reservations that they account for.
func (l *leadership) aggregate(ctx context.Context, key types.NamespacedName, p *v1alpha1.PodProtector) (outcome, error) {
	cell := quota.CellOf(p, l.options.Cell)
	var stored v1alpha1.PodProtectorCell
	if cell != nil {
		stored = *cell
	} else if canHaveEntry, err := l.canHaveEntry(ctx, key.Namespace); err != nil || !canHaveEntry {
		return outcome{}, err
	}
	if quota.IsRestorePending(p) {
		return outcome{}, nil // an event will follow
	}
	if stored.Aggregation.Epoch > l.epochOf(key.Namespace) {
		l.observeEpoch(stored.Aggregation.Epoch)
		return outcome{}, fmt.Errorf("epoch %d on %s: %w", stored.Aggregation.Epoch, key, errDeposed)
	}
	clearedDelay := l.clearedDelay(p, &stored)
	if cell != nil && l.restored > 0 && quota.BeganAtOrBefore(&stored.Aggregation, l.restored) {
		// Decisions since then are lost. Webhooks that have not noticed yet must not use those counts either. They stay the counts of the
		// leadership that made them, which this one may still be behind.
		quota.VoidCounts(&cell.Aggregation)
		cell.Aggregation.TermVersion = formatVersion(l.version)
		return outcome{retry: true}, nil
	}
	if wait := max(clearedDelay, l.settleDelayOf(key, p, cell), l.delayAfterDeletion(key, p, cell)); wait > 0 {
		return outcome{wait: wait}, nil
	}
	resolved := l.targetOf(ctx, p, &stored.Aggregation)
	if resolved.unknown {
		l.writeUncounted(p, resolved)
		return outcome{}, nil
	}
	if _, err := selectors.CoverageOf(&p.Spec, resolved.target); err != nil {
		// The webhook denies all removals of pods that the selector matches, or of the whole namespace, until the user corrects it.
		l.forget(key)
		return outcome{}, nil
	}
	if wait := l.coverPods(p, resolved.target); wait > 0 {
		return outcome{wait: wait, incomplete: true}, nil
	}
	earlier, transition := l.transitions.earlier(p, l.options.Cell, l.maxInFlight(p), l.monotonic())
	observed, ok, err := l.observe(ctx, p, resolved.target, &stored.AdmissionHistory, earlier)
	if err != nil || !ok {
		return outcome{}, err
	}
	if behind, err := l.isBehind(ctx, key, &stored.Aggregation, observed.version); err != nil || behind {
		return outcome{retry: behind}, err
	}
	cell = l.ensureEntry(p)
	cell.Aggregation = observed.aggregation
	cell.Aggregation.Target, cell.Aggregation.TargetProblem = resolved.target, resolved.problem
	expectable := l.expect(ctx, p, &stored.Aggregation, &cell.Aggregation, observed.owners)
	cell.Aggregation.CountedSpec, cell.Aggregation.InTransition = quota.CountedSpec(&p.Spec), transition > 0
	l.stampLeadership(&cell.Aggregation, key.Namespace)
	result := outcome{nextAvailable: observed.nextAvailable, wait: soonest(transition, observed.wait), retry: observed.retry || !expectable}
	result.becameAvailable = observed.lastAvailable.After(stored.Aggregation.LastEventTime.Time)
	result.settled = quota.Settle(&cell.AdmissionHistory, observed.stateOf)
	if cell.Discount = ""; l.isStillStale(stored.Discount) {
		cell.Discount = v1alpha1.DiscountStale
	}
	return result, nil
}

// soonest returns the shorter of two waits; 0 means no wait.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// canHaveEntry reports whether protectors of a namespace may get an entry of the cell: the cell can have pods of the namespace, and the Cell is
// not being deleted.
func (l *leadership) canHaveEntry(ctx context.Context, namespace string) (bool, error) {
	if !l.snapshot.scope.HasNamespace(namespace) {
		return false, nil
	}
	return l.canAddEntries(ctx)
}

// stampLeadership marks counts as those of this leadership.
func (l *leadership) stampLeadership(counts *v1alpha1.Aggregation, namespace string) {
	counts.Epoch = l.epochOf(namespace)
	counts.Holder = l.holder()
	counts.TermVersion = formatVersion(l.version)
}

// coverPods makes the snapshot count for a protector, and returns how long to wait for the nodes whose label its spec uses.
func (l *leadership) coverPods(p *v1alpha1.PodProtector, target *v1alpha1.Target) time.Duration {
	counted, _ := selectors.CountedCoverageOf(&p.Spec, target) // the condition Ready reports an invalid selector
	l.snapshot.Cover(keyOf(p), counted, aggregationRate(p))
	return l.snapshot.nodes.requestLabel(keyOf(p), nodeLabelOf(&p.Spec))
}

// ensureEntry returns the cell's part of the status, and creates it if it does not exist.
func (l *leadership) ensureEntry(p *v1alpha1.PodProtector) *v1alpha1.PodProtectorCell {
	l.endedProtectors.recordCounted(p)
	if quota.CellOf(p, l.options.Cell) == nil {
		p.Status.Cells = append(p.Status.Cells, v1alpha1.PodProtectorCell{CellID: l.options.Cell})
	}
	return quota.CellOf(p, l.options.Cell)
}

// isUnchanged reports whether a and b differ in nothing but the versions and the time of the counts, which alone do not justify a write. A new
// epoch does: it fences an earlier leader that has not noticed yet that it was deposed.
func isUnchanged(a, b *v1alpha1.PodProtector, cellID string) bool {
	b = b.DeepCopy()
	if old, cell := quota.CellOf(a, cellID), quota.CellOf(b, cellID); old != nil && cell != nil {
		cell.Aggregation.SnapshotVersion = old.Aggregation.SnapshotVersion
		cell.Aggregation.SettledVersion = old.Aggregation.SettledVersion
		cell.Aggregation.LastEventTime = old.Aggregation.LastEventTime
	}
	return equality.Semantic.DeepEqual(a.Status, b.Status)
}

// requeue enqueues the protector for the changes that no event reports.
func (l *leadership) requeue(key types.NamespacedName, p *v1alpha1.PodProtector, work outcome) {
	atLeast := max(aggregationRate(p), 100*time.Millisecond)
	if !work.nextAvailable.IsZero() {
		l.queue.AddAfter(key, max(work.nextAvailable.Sub(l.clock.now()), 0))
	}
	exact := l.snapshot.eventClock.isExact()
	if cell := quota.CellOf(p, l.options.Cell); !exact && cell != nil && quota.Open(&cell.AdmissionHistory) > 0 {
		l.snapshot.eventClock.notifyOnNext(key, aggregationRate(p))
	}
	if next, ok := l.deadlinesOf(key).Next(time.Duration(l.admissionDeadline.Load())); ok && exact {
		l.queue.AddAfter(key, max(next.Sub(l.monotonic()), atLeast))
	}
	if work.wait > 0 {
		l.queue.AddAfter(key, work.wait)
	}
	if work.retry {
		l.queue.AddAfter(key, atLeast)
	}
	if unconfirmed := l.protectors.Unconfirmed(key); unconfirmed > 0 {
		l.queue.AddAfter(key, unconfirmed)
	}
}
