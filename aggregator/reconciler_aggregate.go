package aggregator

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/versions"
	"github.com/breakwater-k8s/breakwater/aggregator/workloads"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// outcome is the result of one aggregation.
type outcome struct {
	settled       quota.Settled
	nextAvailable time.Time
	// becameAvailable reports that a counted pod was not available yet at the time of the stored counts. The counts are then written even if they
	// are unchanged: a webhook whose clock is behind judges the age of pods as of that time or later.
	becameAvailable bool
	// escrowsEnded reports that escrows of stopped holders have ended.
	escrowsEnded bool
	// wait requests another round after that time; 0 requests none.
	wait time.Duration
	// retry requests another round after the aggregation rate: something could not be determined yet, or counts became void.
	retry bool
	// incomplete reports that the outcome is incomplete: the aggregation must restart after wait.
	incomplete bool
}

// mustWrite reports whether the outcome must be written now, because time alone has freed budget, or reservations are overdue.
func (o *outcome) mustWrite() bool {
	return o.becameAvailable || o.escrowsEnded || o.settled.Expired > 0 || len(o.settled.Overdue) > 0
}

// aggregation is one aggregation of a protector, which the steps of aggregate complete.
type aggregation struct {
	key types.NamespacedName
	p   *v1alpha1.PodProtector
	// cell is the entry of the cell in p; nil if there is none. stored is a copy of it as it was stored.
	cell   *v1alpha1.PodProtectorCell
	stored v1alpha1.PodProtectorCell
	// clearedDelay is how long a cleared entry must not be counted.
	clearedDelay time.Duration
	target       workloads.TargetResult
	// transition is how long the counts are restricted by earlier specs; 0 if they are not.
	transition time.Duration
	// expired has the escrows that end with the next count, by holder.
	expired  map[string]bool
	observed observation
	outcome  outcome
}

// aggregationStep is one step of an aggregation. It returns whether the aggregation ends with it.
type aggregationStep = func(ctx context.Context, a *aggregation) (done bool, err error)

// aggregate sets the counts of the cell in p and settles the reservations that they account for. The order of the steps is part of rules
// 4, 5, 10 and 11.
func (r *reconciler) aggregate(ctx context.Context, key types.NamespacedName, p *v1alpha1.PodProtector) (outcome, error) {
	a := &aggregation{key: key, p: p, cell: quota.CellOf(p, r.cell)}
	if a.cell != nil {
		a.stored = *a.cell
	}
	for _, step := range []aggregationStep{
		r.requireEntry,       // rule 9: a cell that is unknown or being deleted gets no entry
		r.awaitRecreation,    // rule 10: the keeper is still writing the reservations of a recreated protector
		r.checkEpoch,         // rule 5: a later leader has written
		r.recordCleared,      // rule 4(b): removals that a cleared entry admitted may be in flight
		r.voidLostCounts,     // rule 11: counts of a core incarnation that was lost are void
		r.awaitInFlight,      // rules 4, 10, 11: no count while removals without a reservation may be in flight
		r.awaitConfirmation,  // rule S5: a share whose cluster was restored is compared with its protector first
		r.resolveTarget,      // rule 13: a target that cannot be read keeps its last replicas
		r.checkSelector,      // rule 9: a malformed selector is not counted, and the webhook denies
		r.coverPods,          // rule 12: the domains of the pods must be known
		r.awaitNamespaces,    // rule 14: a protector is not Ready before it is known whether its namespace is guarded
		r.expireEscrows,      // rule E4: what the holders of escrows admitted has ended
		r.observePods,        // rules 4, 5: a count and the states of the reservations, from one snapshot
		r.setCounts,          // rule 4(a): the counts of that snapshot
		r.setExpectation,     // rules 13, 16: what workloads request
		r.setExemption,       // rule 14: a namespace whose removals are not checked is not guarded
		r.stampCounts,        // rule 5: epoch, holder and version
		r.settleReservations, // rules 4(a), 4(b): in the write that sets the counts
		r.setDiscount,        // the pods of a cell that counts again count for removals in other cells
	} {
		if done, err := step(ctx, a); err != nil {
			return outcome{}, err
		} else if done {
			break
		}
	}
	return a.outcome, nil
}

// requireEntry ends the aggregation if the cell has no entry and may not get one.
func (r *reconciler) requireEntry(ctx context.Context, a *aggregation) (bool, error) {
	if a.cell != nil {
		return false, nil
	}
	canHave, err := r.entries.canHave(ctx, a.key.Namespace)
	return !canHave, err
}

// awaitRecreation ends the aggregation of a protector that is being recreated. An event will follow.
func (r *reconciler) awaitRecreation(_ context.Context, a *aggregation) (bool, error) {
	return quota.IsRestorePending(a.p), nil
}

// checkEpoch returns errDeposed if a later leader has written.
func (r *reconciler) checkEpoch(_ context.Context, a *aggregation) (bool, error) {
	if a.stored.Aggregation.Epoch > r.enqueuer.ownership.EpochOf(a.key.Namespace) {
		r.enqueuer.ownership.ObserveEpoch(a.stored.Aggregation.Epoch)
		return true, fmt.Errorf("epoch %d on %s: %w", a.stored.Aggregation.Epoch, a.key, errDeposed)
	}
	return false, nil
}

// recordCleared records when an entry was first seen cleared. voidLostCounts comes before the wait.
func (r *reconciler) recordCleared(_ context.Context, a *aggregation) (bool, error) {
	a.clearedDelay = r.delays.afterClearing(a.p, &a.stored)
	return false, nil
}

// voidLostCounts makes counts void that were made before the core was restored. Decisions since then are lost. Webhooks that have not
// noticed yet must not use those counts either. Epoch and holder stay those of the leadership that made them, which this one may still be behind.
func (r *reconciler) voidLostCounts(_ context.Context, a *aggregation) (bool, error) {
	if a.cell == nil || r.start.restored == 0 || !quota.BeganAtOrBefore(&a.stored.Aggregation, r.start.restored) {
		return false, nil
	}
	quota.VoidCounts(&a.cell.Aggregation)
	a.cell.Aggregation.TermVersion = versions.Format(r.start.version) // this leadership's, so that they become void only once
	a.outcome.retry = true
	return true, nil
}

// awaitInFlight ends the aggregation while removals may be in flight that no stored reservation covers.
func (r *reconciler) awaitInFlight(_ context.Context, a *aggregation) (bool, error) {
	a.outcome.wait = max(a.clearedDelay, r.delays.afterLoss(a.key, a.p, a.cell), r.delays.afterDeletion(a.key, a.p, a.cell))
	return a.outcome.wait > 0, nil
}

// awaitConfirmation ends the aggregation of a share whose cluster was restored until it has entered again. An event will follow (rule S5). A closed share
// is counted, since it admits nothing, and ends only when its reservations are settled.
func (r *reconciler) awaitConfirmation(_ context.Context, a *aggregation) (bool, error) {
	return a.p.Spec.ShareOf != nil && !a.p.Spec.ShareOf.Closed && quota.AwaitsConfirmation(a.p.Spec.ShareOf, &a.stored.Aggregation), nil
}

// resolveTarget determines the target. If it was never known, it writes why nothing is counted.
func (r *reconciler) resolveTarget(ctx context.Context, a *aggregation) (bool, error) {
	a.target = r.workloads.TargetOf(ctx, a.p, &a.stored.Aggregation)
	if a.target.Unknown {
		r.writeUncounted(a.p, a.target)
	}
	return a.target.Unknown, nil
}

// checkSelector ends the aggregation of an invalid selector. The webhook denies all removals of pods that the selector matches, or of the
// whole namespace, until the user corrects it.
func (r *reconciler) checkSelector(_ context.Context, a *aggregation) (bool, error) {
	if _, err := selectors.CoverageOf(&a.p.Spec, a.target.Target); err != nil {
		r.forget(a.key)
		return true, nil
	}
	return false, nil
}

// coverPods makes the snapshot count for the protector, and waits for the nodes whose label its spec uses.
func (r *reconciler) coverPods(_ context.Context, a *aggregation) (bool, error) {
	counted, _ := selectors.CountedCoverageOf(&a.p.Spec, a.target.Target) // the condition Ready reports an invalid selector
	r.pods.snapshot.Cover(a.key, counted, a.p.Spec.AdmissionHistory.AggregationRateOrDefault())
	a.outcome.wait = r.pods.snapshot.RequestNodes(a.key, &a.p.Spec)
	a.outcome.incomplete = a.outcome.wait > 0
	return a.outcome.incomplete, nil
}

// awaitNamespaces ends the first aggregation of a protector until the namespaces have been read. That enqueues all protectors.
func (r *reconciler) awaitNamespaces(_ context.Context, a *aggregation) (bool, error) {
	return r.exemptions.Awaited(&a.stored.Aggregation), nil
}

// expireEscrows determines which escrows end with this count, because their holders have stopped. The count is then taken from a list that is read now: it
// accounts for everything that the holders admitted without naming it (rule E4).
func (r *reconciler) expireEscrows(_ context.Context, a *aggregation) (bool, error) {
	now, deadline := r.pods.monotonic(), r.pods.deadlines.admissionDeadline()
	timers := r.pods.deadlines.observe(a.key, &a.stored.AdmissionHistory, now)
	for _, e := range a.stored.AdmissionHistory.Escrows {
		if timers.HasEscrowPassed(e, deadline, now) {
			if a.expired == nil {
				a.expired = map[string]bool{}
			}
			a.expired[e.Holder] = true
		}
	}
	return false, nil
}

// observePods counts, restricted by the earlier specs and targets of a transition.
func (r *reconciler) observePods(ctx context.Context, a *aggregation) (bool, error) {
	earlier, transition := r.transitions.earlier(a.p, r.cell, a.target.Target, r.pods.deadlines.maxInFlight(a.p), r.pods.monotonic())
	observed, ok, err := r.pods.observe(ctx, a.p, a.target.Target, &a.stored.AdmissionHistory, earlier, len(a.expired) > 0)
	a.transition, a.observed = transition, observed
	return !ok, err
}

// setCounts replaces the counts of the entry, which it creates if it does not exist.
func (r *reconciler) setCounts(_ context.Context, a *aggregation) (bool, error) {
	a.cell = r.entries.ensure(a.p)
	a.cell.Aggregation = a.observed.Aggregation
	a.cell.Aggregation.Target, a.cell.Aggregation.TargetProblem = a.target.Target, a.target.Problem
	a.outcome.nextAvailable, a.outcome.wait = a.observed.NextAvailable, soonest(a.transition, a.observed.wait)
	a.outcome.becameAvailable = a.observed.LastAvailable.After(a.stored.Aggregation.LastEventTime.Time)
	return false, nil
}

// setExpectation sets how many pods are expected.
func (r *reconciler) setExpectation(ctx context.Context, a *aggregation) (bool, error) {
	isFinal := r.workloads.Expect(ctx, a.p, &a.stored.Aggregation, &a.cell.Aggregation, &a.observed.Count)
	a.outcome.retry = a.observed.retry || !isFinal
	return false, nil
}

// setExemption sets whether the API server of the cell calls the webhook for removals in the namespace.
func (r *reconciler) setExemption(_ context.Context, a *aggregation) (bool, error) {
	r.exemptions.Set(a.p, &a.stored.Aggregation, &a.cell.Aggregation)
	return false, nil
}

// stampCounts marks counts as those of this spec and this leadership.
func (r *reconciler) stampCounts(_ context.Context, a *aggregation) (bool, error) {
	counts := &a.cell.Aggregation
	counts.CountedSpec, counts.InTransition = quota.CountedSpec(&a.p.Spec), a.transition > 0
	counts.Epoch, counts.Holder = r.enqueuer.ownership.EpochOf(a.key.Namespace), r.enqueuer.ownership.Holder()
	counts.TermVersion, counts.KnowsEscrows = versions.Format(r.start.version), true
	return false, nil
}

// settleReservations drops the reservations that the counts account for.
func (r *reconciler) settleReservations(_ context.Context, a *aggregation) (bool, error) {
	a.outcome.settled = quota.Settle(&a.cell.AdmissionHistory, func(reservation quota.Reservation) quota.Observation {
		return a.observed.Cutoff.Settle(reservation, a.observed.stateOf(reservation))
	})
	a.outcome.escrowsEnded = quota.EndEscrows(&a.cell.AdmissionHistory, func(e v1alpha1.Escrow) bool { return a.expired[e.Holder] })
	return false, nil
}

// setDiscount ends the discount of the cell, unless the cell stopped reporting and its API server still does not answer.
func (r *reconciler) setDiscount(_ context.Context, a *aggregation) (bool, error) {
	a.cell.Discount = ""
	if r.heartbeat.isStillStale(a.stored.Discount) {
		a.cell.Discount = v1alpha1.DiscountStale
	}
	return true, nil
}

// soonest returns the shorter of two waits; 0 means no wait.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// writeUncounted writes why nothing is counted. It keeps reservations and the record of who has counted up to which version.
func (r *reconciler) writeUncounted(p *v1alpha1.PodProtector, unknown workloads.TargetResult) {
	r.pods.snapshot.Uncover(client.ObjectKeyFromObject(p))
	cell := r.entries.ensure(p)
	stored := cell.Aggregation
	cell.Aggregation = v1alpha1.Aggregation{
		Exempt: stored.Exempt, ExemptProblem: stored.ExemptProblem,
		TargetProblem: unknown.Problem, LastEventTime: metav1.NewMicroTime(r.enqueuer.clock.now()),
		SnapshotVersion: stored.SnapshotVersion, SettledVersion: stored.SettledVersion,
		TermVersion: versions.Format(r.start.version),
		Epoch:       cmp.Or(stored.Epoch, r.enqueuer.ownership.EpochOf(p.Namespace)), Holder: cmp.Or(stored.Holder, r.enqueuer.ownership.Holder()),
	}
}
