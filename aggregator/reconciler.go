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
func (t *term) reconcile(ctx context.Context, key types.NamespacedName) error {
	if !t.enter(key.Namespace) {
		return nil // another shard counts it
	}
	defer t.leave(key.Namespace)
	p, err := t.protectors.Newest(ctx, key)
	for {
		if apierrors.IsNotFound(err) {
			t.forget(key)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the protector: %w", err)
		}
		err = t.write(ctx, key, p)
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		t.metrics.writes.WithLabelValues("conflict").Inc()
		p, err = t.protectors.After(ctx, p)
	}
}

// write makes the changes that p needs, if any, in one compare-and-swap.
func (t *term) write(ctx context.Context, key types.NamespacedName, p *v1alpha1.PodProtector) error {
	before := p.DeepCopy()
	work, err := t.count(ctx, key, p)
	if err != nil {
		return err
	}
	if work.postponed {
		t.comeBack(key, p, work)
		return nil
	}
	t.depart(p)
	t.conclude(p)
	if !t.mayWrite(key.Namespace) {
		return nil
	}
	t.metrics.spread.tell(key, p)
	if work.settled.Any() || work.aged || !same(before, p, t.options.Cell) {
		err := t.store(ctx, p, &work.settled)
		if cell := quota.CellOf(p, t.options.Cell); cell != nil && work.settled.Any() && !apierrors.IsConflict(err) {
			t.deadlinesOf(key).Forget(&cell.AdmissionHistory)
		}
		if err != nil {
			return err
		}
		t.metrics.settle(&work.settled)
		t.metrics.writes.WithLabelValues("written").Inc()
		t.tellOverdue(p, work.settled.Overdue)
		t.tellSpread(before, p)
	}
	t.comeBack(key, p, work)
	return nil
}

// outcome is the result of one aggregation.
type outcome struct {
	settled       quota.Settled
	nextAvailable time.Time
	// aged reports that a counted pod was not available yet at the time of the stored counts. The counts are then written even if they
	// are unchanged: a webhook whose clock is behind judges the age of pods as of that time or later.
	aged bool
	// wait requests another round after that time; 0 requests none.
	wait time.Duration
	// again requests another round after the aggregation rate, because a live read was inconclusive.
	again bool
	// postponed reports that the outcome is incomplete: the aggregation must restart after wait.
	postponed bool
}

// aggregate sets the counts of the cell in p and settles the reservations that they account for.
func (t *term) aggregate(ctx context.Context, key types.NamespacedName, p *v1alpha1.PodProtector) (outcome, error) {
	cell := quota.CellOf(p, t.options.Cell)
	var stored v1alpha1.PodProtectorCell
	if cell != nil {
		stored = *cell
	} else if enters, err := t.enters(ctx, key.Namespace); err != nil || !enters {
		return outcome{}, err
	}
	if quota.Unfinished(p) {
		return outcome{}, nil // an event will follow
	}
	if stored.Aggregation.Epoch > t.epochOf(key.Namespace) {
		t.heardOf(stored.Aggregation.Epoch)
		return outcome{}, fmt.Errorf("epoch %d on %s: %w", stored.Aggregation.Epoch, key, errDeposed)
	}
	held := t.heldBack(p, &stored)
	if cell != nil && t.leadership.restored > 0 && quota.IsOfUntil(&stored.Aggregation, t.leadership.restored) {
		// Decisions since then are lost. Webhooks that have not noticed yet must not use those counts either. They stay the counts of the
		// leadership that made them, which this one may still be behind.
		quota.Void(&cell.Aggregation)
		cell.Aggregation.TermVersion = formatVersion(t.version)
		return outcome{again: true}, nil
	}
	if wait := max(held, t.quiet(key, p, cell), t.afterEnding(key, p, cell)); wait > 0 {
		return outcome{wait: wait}, nil
	}
	aim := t.aimOf(ctx, p, &stored.Aggregation)
	if aim.unknown {
		t.giveUpCounting(p, aim)
		return outcome{}, nil
	}
	if _, err := selectors.CoverageOf(&p.Spec, aim.target); err != nil {
		// The webhook denies all removals of pods that the selector matches, or of the whole namespace, until the user corrects it.
		t.forget(key)
		return outcome{}, nil
	}
	if wait := t.cover(p, aim.target); wait > 0 {
		return outcome{wait: wait, postponed: true}, nil
	}
	earlier, transition := t.transitions.earlier(p, t.options.Cell, t.underWay(p), t.monotonic())
	look, ok, err := t.look(ctx, p, aim.target, &stored.AdmissionHistory, earlier)
	if err != nil || !ok {
		return outcome{}, err
	}
	if behind, err := t.isBehind(ctx, key, &stored.Aggregation, look.version); err != nil || behind {
		return outcome{again: behind}, err
	}
	cell = t.entry(p)
	cell.Aggregation = look.aggregation
	cell.Aggregation.Target, cell.Aggregation.TargetProblem = aim.target, aim.problem
	expectable := t.expect(ctx, p, &stored.Aggregation, &cell.Aggregation, look.owners)
	cell.Aggregation.CountedSpec, cell.Aggregation.InTransition = quota.CountedSpec(&p.Spec), transition > 0
	t.sign(&cell.Aggregation, key.Namespace)
	done := outcome{nextAvailable: look.nextAvailable, wait: soonest(transition, look.wait), again: look.again || !expectable}
	done.aged = look.lastAvailable.After(stored.Aggregation.LastEventTime.Time)
	done.settled = quota.Settle(&cell.AdmissionHistory, look.see)
	if cell.Discount = ""; t.silent(stored.Discount) {
		cell.Discount = v1alpha1.DiscountStale
	}
	return done, nil
}

// soonest returns the shorter of two waits; 0 means no wait.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// enters reports whether protectors of a namespace may get an entry of the cell: the cell can have pods of the namespace, and the Cell is
// not being deleted.
func (t *term) enters(ctx context.Context, namespace string) (bool, error) {
	if !t.snapshot.scope.HasNamespace(namespace) {
		return false, nil
	}
	return t.isOpen(ctx)
}

// sign marks counts as those of this leadership.
func (t *term) sign(counts *v1alpha1.Aggregation, namespace string) {
	counts.Epoch = t.epochOf(namespace)
	counts.Holder = t.holder()
	counts.TermVersion = formatVersion(t.version)
}

// cover makes the snapshot count for a protector, and returns how long to wait for the nodes whose label its spec uses.
func (t *term) cover(p *v1alpha1.PodProtector, target *v1alpha1.Target) time.Duration {
	counted, _ := selectors.CountedOf(&p.Spec, target) // the condition Ready reports an invalid selector
	t.snapshot.Cover(keyOf(p), counted, aggregationRate(p))
	return t.snapshot.nodes.ask(keyOf(p), nodeLabelOf(&p.Spec))
}

// entry returns the cell's part of the status, and creates it if it does not exist.
func (t *term) entry(p *v1alpha1.PodProtector) *v1alpha1.PodProtectorCell {
	t.endings.count(p)
	if quota.CellOf(p, t.options.Cell) == nil {
		p.Status.Cells = append(p.Status.Cells, v1alpha1.PodProtectorCell{CellID: t.options.Cell})
	}
	return quota.CellOf(p, t.options.Cell)
}

// same reports whether a and b differ in nothing but the versions and the time of the counts, which alone do not justify a write. A new
// epoch does: it fences an earlier leader that has not noticed yet that it was deposed.
func same(a, b *v1alpha1.PodProtector, cellID string) bool {
	b = b.DeepCopy()
	if old, cell := quota.CellOf(a, cellID), quota.CellOf(b, cellID); old != nil && cell != nil {
		cell.Aggregation.SnapshotVersion = old.Aggregation.SnapshotVersion
		cell.Aggregation.SettledVersion = old.Aggregation.SettledVersion
		cell.Aggregation.LastEventTime = old.Aggregation.LastEventTime
	}
	return equality.Semantic.DeepEqual(a.Status, b.Status)
}

// comeBack enqueues the protector for the changes that no event reports.
func (t *term) comeBack(key types.NamespacedName, p *v1alpha1.PodProtector, work outcome) {
	atLeast := max(aggregationRate(p), 100*time.Millisecond)
	if !work.nextAvailable.IsZero() {
		t.queue.AddAfter(key, max(work.nextAvailable.Sub(t.clock.now()), 0))
	}
	exact := t.snapshot.hearing.isExact()
	if cell := quota.CellOf(p, t.options.Cell); !exact && cell != nil && quota.Open(&cell.AdmissionHistory) > 0 {
		t.snapshot.hearing.await(key, aggregationRate(p))
	}
	if next, ok := t.deadlinesOf(key).Next(time.Duration(t.admissionDeadline.Load())); ok && exact {
		t.queue.AddAfter(key, max(next.Sub(t.monotonic()), atLeast))
	}
	if work.wait > 0 {
		t.queue.AddAfter(key, work.wait)
	}
	if work.again {
		t.queue.AddAfter(key, atLeast)
	}
	if unconfirmed := t.protectors.Unconfirmed(key); unconfirmed > 0 {
		t.queue.AddAfter(key, unconfirmed)
	}
}
