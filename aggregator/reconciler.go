package aggregator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/aggregator/conditions"
	"github.com/breakwater-k8s/breakwater/aggregator/guard"
	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/aggregator/shares"
	"github.com/breakwater-k8s/breakwater/aggregator/workloads"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// reconciler brings the cell's part of protectors' statuses up to date. Several workers may use it, each for another protector.
type reconciler struct {
	cell  string
	start startState
	// pods counts, delays says how long not to, and transitions by which specs to.
	pods        *podObserver
	delays      *countDelays
	transitions *transitions
	workloads   *workloads.Resolver
	entries     *cellEntries
	// exemptions are the namespaces that the cell's API server excludes from reviews; nil if they are not determined.
	exemptions *guard.Exemptions
	// shares moves the shares of the cell; nil if it has none. ofShares reports that this leadership counts for shares, and for nothing else.
	shares   *shares.Keeper
	ofShares bool
	// states are those of the parts, for protectors that are not counted any more.
	states    ownership.States
	heartbeat *cellHeartbeat
	enqueuer  *enqueuer
	writes    statusWrites
}

// statusWrites writes statuses of protectors, or defers that, and reports it.
type statusWrites struct {
	protectors *clusters.Protectors
	deferral   *deferral
	events     *protectorEvents
	metrics    *metrics
}

// reconcile brings the cell's part of a protector's status up to date. It decides on the newest object that it has and, after a conflict,
// again on the newest one of the API server.
func (r *reconciler) reconcile(ctx context.Context, key types.NamespacedName) error {
	if !r.enqueuer.ownership.BeginWork(key.Namespace) {
		return nil // another shard counts it
	}
	defer r.enqueuer.ownership.EndWork(key.Namespace)
	p, err := r.writes.protectors.Newest(ctx, key)
	for {
		if apierrors.IsNotFound(err) {
			r.forget(key)
			err := r.shares.Release(ctx, key)
			if err == nil {
				r.shares.RecordCompared(key)
			}
			return err
		}
		if err == nil && !r.countsFor(p) {
			r.forget(key)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the protector: %w", err)
		}
		err = r.write(ctx, key, p)
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		r.writes.metrics.writes.WithLabelValues("conflict").Inc()
		p, err = r.writes.protectors.After(ctx, p)
	}
}

// countsFor reports whether the aggregator counts for a protector: either for shares, and then for those of its own cell (rule S1), or for
// other protectors.
func (r *reconciler) countsFor(p *v1alpha1.PodProtector) bool {
	if of := p.Spec.ShareOf; of != nil {
		return r.ofShares && of.Cell == r.cell
	}
	return !r.ofShares
}

// write makes the changes that p needs, if any, in one compare-and-swap: count, store, emit, enqueue.
func (r *reconciler) write(ctx context.Context, key types.NamespacedName, p *v1alpha1.PodProtector) error {
	before := p.DeepCopy()
	work, err := r.enqueuer.rounds.count(ctx, p, func(ctx context.Context) (outcome, error) { return r.aggregate(ctx, key, p) })
	if err != nil {
		return err
	}
	if work.incomplete {
		r.requeue(key, p, work)
		return nil
	}
	if !r.enqueuer.ownership.CanWrite(key.Namespace) {
		return nil
	}
	if mayAdd, err := r.entries.mayStore(ctx, before, p); err != nil || !mayAdd {
		return err
	}
	finish, stepErr := r.shares.Step(ctx, before, p, r.entries.drain)
	if shares.IsOutdated(stepErr) {
		r.enqueuer.queue.AddAfter(key, shares.ShareRetryInterval)
		return nil
	} else if stepErr != nil {
		work.settled = quota.Settled{}
	}
	conditions.Summarize(p, r.enqueuer.clock.now())
	r.writes.metrics.spread.record(key, p)
	if work.settled.HasAny() || work.becameAvailable || !isUnchanged(before, p, r.cell) {
		if wait := r.writes.deferral.wait(before, p, &work); wait > 0 {
			r.enqueuer.queue.AddAfter(key, wait)
			r.requeue(key, p, work)
			return nil
		}
		err := r.enqueuer.rounds.store(ctx, &work.settled, func(ctx context.Context) error { return r.storeStatus(ctx, p) })
		if cell := quota.CellOf(p, r.cell); cell != nil && work.settled.HasAny() && !apierrors.IsConflict(err) {
			r.pods.deadlines.of(key).Prune(&cell.AdmissionHistory)
		}
		if err != nil {
			return err
		}
		r.writes.metrics.countSettled(&work.settled)
		r.writes.metrics.writes.WithLabelValues("written").Inc()
		r.writes.events.emitOverdue(p, work.settled.Overdue)
		r.writes.events.emitSpread(before, p)
		r.writes.events.emitExpectation(before, p)
	}
	r.writes.deferral.end(key)
	r.requeue(key, p, work)
	if stepErr != nil {
		return stepErr
	}
	if finish == nil {
		r.shares.RecordCompared(key)
	}
	return r.finishStep(ctx, key, finish)
}

// finishStep makes the write of a share that follows the write of its protector; nil if there is none.
func (r *reconciler) finishStep(ctx context.Context, key types.NamespacedName, finish func(context.Context) error) error {
	if finish == nil {
		return nil
	}
	if err := finish(ctx); err != nil && !shares.IsOutdated(err) {
		return fmt.Errorf("write the share of the cell: %w", err)
	}
	r.enqueuer.queue.AddAfter(key, shares.ShareRetryInterval)
	return nil
}

// storeStatus writes the status of a protector, and records how long that took.
func (r *reconciler) storeStatus(ctx context.Context, p *v1alpha1.PodProtector) error {
	began := time.Now()
	err := r.writes.protectors.WriteStatus(ctx, p)
	tracing.Observe(ctx, r.writes.metrics.writeDuration.WithLabelValues(tracing.WriteResult(err)), time.Since(began).Seconds())
	return err
}

// isUnchanged reports whether a and b differ in nothing but the versions and the time of the counts, which alone do not justify a write. A new
// epoch does: it fences an earlier leader that has not noticed yet that it was deposed.
func isUnchanged(a, b *v1alpha1.PodProtector, cellID string) bool {
	b = withOwnCells(b)
	if old, cell := quota.CellOf(a, cellID), quota.CellOf(b, cellID); old != nil && cell != nil {
		cell.Aggregation.SnapshotVersion = old.Aggregation.SnapshotVersion
		cell.Aggregation.SettledVersion = old.Aggregation.SettledVersion
		cell.Aggregation.LastEventTime = old.Aggregation.LastEventTime
	}
	return equality.Semantic.DeepEqual(a.Status, b.Status)
}

// withOwnCells returns a copy of a protector whose entries of cells may be replaced. It shares all else with p.
func withOwnCells(p *v1alpha1.PodProtector) *v1alpha1.PodProtector {
	shared := *p
	shared.Status.Cells = slices.Clone(p.Status.Cells)
	return &shared
}

// requeue enqueues the protector for the changes that no event reports.
func (r *reconciler) requeue(key types.NamespacedName, p *v1alpha1.PodProtector, work outcome) {
	atLeast := max(p.Spec.AdmissionHistory.AggregationRateOrDefault(), 100*time.Millisecond)
	if !work.nextAvailable.IsZero() {
		r.enqueuer.queue.AddAfter(key, max(work.nextAvailable.Sub(r.enqueuer.clock.now()), 0))
	}
	awaitsEvent := r.pods.snapshot.EventSettlement.Await(key, quota.CellOf(p, r.cell), p.Spec.AdmissionHistory.AggregationRateOrDefault())
	if next, ok := r.pods.deadlines.of(key).Next(r.pods.deadlines.admissionDeadline()); ok && !awaitsEvent {
		r.enqueuer.queue.AddAfter(key, max(next.Sub(r.pods.monotonic()), atLeast))
	}
	if work.wait > 0 {
		r.enqueuer.queue.AddAfter(key, work.wait)
	}
	if wait := conditions.ExcessObservation(p, r.enqueuer.clock.now()); wait > 0 {
		r.enqueuer.queue.AddAfter(key, max(wait, atLeast))
	}
	if work.retry {
		r.enqueuer.queue.AddAfter(key, atLeast)
	}
	if unconfirmed := r.writes.protectors.Unconfirmed(key); unconfirmed > 0 {
		r.enqueuer.queue.AddAfter(key, unconfirmed)
	}
}

// forget drops the state of a protector that is not counted any more.
func (r *reconciler) forget(key types.NamespacedName) {
	r.pods.snapshot.Uncover(key)
	r.states.Forget(key)
}
