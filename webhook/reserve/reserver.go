package reserve

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/batch"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// reserver submits operations on the protectors of a core to their next batches. In a storm, and while several replicas
// write the same protector, it forwards reservations to another replica.
type reserver struct {
	core string
	// batches executes each batch by batchWriter.flush.
	batches *batch.Batcher[types.NamespacedName, historyOp, opResult]
	// forwarder forwards reservations to other replicas; nil when there are none.
	forwarder *forwarder
	conflicts *conflictLog
	distance  *coreDistance
	// escrows are the reservations that this replica has made in advance. states has the newest known states of protectors.
	escrows *escrows
	states  *States
	// underWay is the number of reservations under way in this replica, with any protector, those for other replicas included.
	underWay atomic.Int64
	metrics  *Metrics
	spans    *operationTracer
	log      logr.Logger
	// probe knows whether the core answers.
	probe coreProbe
}

// reserve makes a reservation, while the core answers. It joins a batch of this replica or, in contention or beside an escrow, a batch of the replica
// that all of them choose. A replica that returns no valid answer is not asked again for suspectDuration.
func (r *reserver) reserve(ctx context.Context, key types.NamespacedName, op historyOp) (result opResult, err error) {
	ctx, end := r.spans.startReserve(ctx, key)
	defer func() { end(result, err) }()
	if err := r.probe.err(); err != nil {
		return opResult{}, err
	}
	ctx, stop := r.probe.whileAnswering(ctx)
	defer stop()
	if result, ok := r.admitByEscrow(ctx, key, op); ok {
		return result, nil
	}
	r.underWay.Add(1)
	defer r.underWay.Add(-1)
	if r.forwarder != nil {
		if owner := r.forwarder.ownerOf(key); owner != "" && (r.isContended(key) || r.ownerAdmitsAtOnce(ctx, key, op)) {
			result, err := r.forwarder.reserve(ctx, owner, key, op)
			r.metrics.forwarded.WithLabelValues(r.core, forwardResult(err)).Inc()
			if err == nil && result.verdict.Outcome != quota.Waived { // without a write, only the newest state that is known here tells that none is needed
				return result, nil
			}
			if err != nil && ctx.Err() == nil {
				r.log.Info("Forwarding to another replica failed, reserving locally", "replica", owner, "protector", key, "reason", err.Error())
				r.forwarder.markSuspect(owner)
			}
			// The other replica may have reserved anyway, or may still do so. The new token makes this a separate
			// reservation.
			op.removal.Token = NewToken()
		}
	}
	result, err = r.enqueue(ctx, key, op)
	if err == nil && result.verdict.Outcome == quota.DeniedNoBudget {
		return r.askHolders(ctx, key, op, result), nil
	}
	return result, err
}

// askHolders asks the replicas that have reserved in advance with a protector for a removal that there is no other budget for. It returns denied if none of
// them admits it.
func (r *reserver) askHolders(ctx context.Context, key types.NamespacedName, op historyOp, denied opResult) opResult {
	if r.forwarder == nil || !r.escrows.isFor(&op) {
		return denied
	}
	p, lost, err := r.states.newest(ctx, key)
	if err != nil || lost {
		return denied
	}
	for _, holder := range r.escrows.otherHolders(p, op.removal.Cell) {
		if !r.forwarder.isPeer(holder) {
			continue // it is of another cell, or has ended
		}
		op.removal.Token = NewToken()
		result, err := r.forwarder.reserve(ctx, holder, key, op)
		r.metrics.forwarded.WithLabelValues(r.core, forwardResult(err)).Inc()
		if err != nil && ctx.Err() == nil {
			r.forwarder.markSuspect(holder)
		}
		if err == nil && result.verdict.Outcome.Written() {
			return result
		}
	}
	return denied
}

// admitByEscrow admits a removal by an escrow of this replica, if it has one (rule E2).
func (r *reserver) admitByEscrow(ctx context.Context, key types.NamespacedName, op historyOp) (opResult, bool) {
	if !r.escrows.mayAdmit(key, &op) {
		return opResult{}, false
	}
	p, lost, err := r.states.newest(ctx, key)
	if err != nil || lost {
		return opResult{}, false
	}
	result, isAdmitted := r.escrows.admit(p, key, op, r.states.restoreDetector.IsSameIncarnation)
	if isAdmitted {
		r.metrics.inAdvance.WithLabelValues(r.core).Inc()
	}
	return result, isAdmitted
}

// flushEscrow writes what the escrows of a protector have admitted.
func (r *reserver) flushEscrow(protector types.NamespacedName) error {
	ctx, cancel := context.WithTimeout(context.Background(), escrowWriteTimeout)
	defer cancel()
	_, err := r.batches.Do(ctx, protector, historyOp{kind: opFlush})
	if err != nil {
		r.log.V(1).Info("Could not name the pods of admitted removals, trying again", "protector", protector, "error", err.Error())
	}
	return err
}

// isContended reports whether other replicas write a protector, or are expected to: in a storm they get as many removals as this
// replica, and each conflict costs a write.
func (r *reserver) isContended(key types.NamespacedName) bool {
	return r.underWay.Load() >= forwardFrom || r.conflicts.isRecent(key, forwardAfterConflict)
}

// ownerAdmitsAtOnce reports whether the replica that owns a protector may have reserved in advance with it: a replica has, or does so for lone removals.
func (r *reserver) ownerAdmitsAtOnce(ctx context.Context, key types.NamespacedName, op historyOp) bool {
	if r.distance.isFarForEscrow() {
		return true
	}
	p, lost, err := r.states.newest(ctx, key)
	return err == nil && !lost && len(r.escrows.otherHolders(p, op.removal.Cell)) > 0
}

// enqueue submits an operation to the next batch for a protector.
func (r *reserver) enqueue(ctx context.Context, key types.NamespacedName, op historyOp) (opResult, error) {
	spans, end := r.spans.startWait(ctx)
	defer end()
	op.spans = spans
	result, err := r.batches.Do(ctx, key, op)
	// The reason is unknown if the error is no answer of an API server.
	if reason := apierrors.ReasonForError(err); err != nil && (reason == metav1.StatusReasonUnknown || reason == metav1.StatusReasonUnauthorized) {
		r.probe.probe.Suspect()
	}
	return result, err
}

// giveBack gives a reservation back.
func (r *reserver) giveBack(ctx context.Context, key types.NamespacedName, op historyOp) (opResult, error) {
	return r.spans.traceGiveBack(ctx, key, func(ctx context.Context) (opResult, error) { return r.enqueue(ctx, key, op) })
}

// errUnknownProtector is the answer for a protector that this replica does not have. This replica may not have read it yet: the
// asking replica has read it, and must check for itself.
var errUnknownProtector = errors.New("the protector does not exist")

// reserveForPeer reserves for another replica. It returns decisions for all removals or for none. It does not forward them
// again: replicas that disagree about the owner would pass them in a circle.
func (r *reserver) reserveForPeer(ctx context.Context, key types.NamespacedName, removals []quota.Removal) ([]decided, error) {
	spans, end := r.spans.startWait(ctx)
	defer end()
	if err := r.probe.err(); err != nil {
		return nil, err // the asking replica may reach the core
	}
	ctx, stop := r.probe.whileAnswering(ctx)
	defer stop()
	r.underWay.Add(int64(len(removals)))
	defer r.underWay.Add(-int64(len(removals)))
	decisions := make([]decided, len(removals))
	var ops []historyOp
	var positions []int // of ops in decisions
	for i, removal := range removals {
		op := historyOp{removal: removal, claim: &quota.Claim{}, spans: spans}
		if result, ok := r.admitByEscrow(ctx, key, op); ok {
			decisions[i] = decided{Verdict: result.verdict, Claim: *op.claim}
			continue
		}
		ops, positions = append(ops, op), append(positions, i)
	}
	results, err := r.batches.DoAll(ctx, key, ops)
	if err != nil {
		return nil, err
	}
	for i, result := range results {
		if result.kind == resultReleased {
			return nil, errUnknownProtector
		}
		decisions[positions[i]] = decided{Verdict: result.verdict, Claim: *ops[i].claim}
	}
	return decisions, nil
}

// FlushPending writes the pending charges of a protector for which no removal is requested.
func (r *reserver) FlushPending(ctx context.Context, protector types.NamespacedName) error {
	ctx, cancel := context.WithTimeout(ctx, pendingWriteTimeout)
	defer cancel()
	_, err := r.batches.Do(ctx, protector, historyOp{kind: opFlush})
	return err
}

// escrowWriteTimeout limits a write that only names pods.
const escrowWriteTimeout = 10 * time.Second

const (
	// forwardFrom is the number of concurrent removals from which on they are forwarded: other replicas are about to get as many.
	forwardFrom = 2
	// stormQueueDepth is the number of concurrent removals at which the webhook assumes a storm.
	stormQueueDepth = 4
	// maxBatchWindow limits how long the removals of a storm wait for each other.
	maxBatchWindow = 200 * time.Millisecond
	// stragglers is the part of the recent removals that a batch does not wait for: an eighth.
	stragglers = 8
)

// batchWindow returns the batch window. In a storm it gathers removals, because a write costs the core much more than a
// removal costs the webhook. A client that requests one removal after the other never waits. The batch is flushed as
// soon as it holds seven eighths of as many removals as there were recently: the others would keep it waiting for the
// slowest client. If the core is far away, it is flushed at half as many: then one half waits for the network while the other half
// arrives, and writes are rare anyway. After a conflict with another replica it waits for the whole window: the more often replicas
// write one object, the more writes fail.
func (r *reserver) batchWindow(key types.NamespacedName, queueDepth int, took time.Duration) (window time.Duration, enough int) {
	if queueDepth < stormQueueDepth {
		return 0, 0
	}
	if r.escrows.mayHold(key) {
		return 0, 0 // few removals wait for a write
	}
	enough = queueDepth - queueDepth/stragglers
	switch {
	case r.conflicts.isRecent(key, took):
		enough = math.MaxInt
	case r.distance.isFar():
		enough = queueDepth / 2
	}
	return min(5*took, maxBatchWindow), enough
}
