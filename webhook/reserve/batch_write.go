package reserve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// batchWriter executes batches of operations on the protectors of a core, each in one compare-and-swap. This is the key
// write of the webhook: it admits a removal only after this write has stored the reservation (rule 1). The caller must
// not run two batches of one protector at a time.
type batchWriter struct {
	core       string
	protectors *clusters.Protectors
	// restoreDetector detects that the core was restored from a backup.
	restoreDetector *clusters.RestoreDetector
	states          *States
	pendingCharges  *PendingCharges
	conflicts       *conflictLog
	distance        *coreDistance
	metrics         *Metrics
	spans           *operationTracer
	now             func() time.Time
	// escrows names in each write what was admitted by the escrows of this process.
	escrows *escrows
}

// flush executes all operations for one protector, after its pending charges.
func (w *batchWriter) flush(ctx context.Context, key types.NamespacedName, ops []historyOp) ([]opResult, error) {
	return w.spans.traceBatch(ctx, key, ops, func(ctx context.Context) ([]opResult, error) {
		pending := w.pendingCharges.ops(key, w.now())
		results, err := w.write(ctx, key, slices.Concat(pending, ops))
		if apierrors.IsInvalid(err) && len(pending) > 0 {
			return w.flushOneByOne(ctx, key, pending, ops)
		}
		if err != nil {
			return nil, err
		}
		w.pendingCharges.removeCharged(key, pending, results, w.now())
		return results[len(pending):], nil
	})
}

// flushOneByOne writes each pending charge of its own, before the operations. It sets those aside that the API server rejects: one of them would keep the
// protector from every other decision.
func (w *batchWriter) flushOneByOne(ctx context.Context, key types.NamespacedName, pending, ops []historyOp) ([]opResult, error) {
	eachClaim(ops, func(claim *quota.Claim) { *claim = quota.Claim{} }) // the write failed, so no claim was stored
	for i := range pending {
		one := pending[i : i+1]
		results, err := w.write(ctx, key, one)
		switch {
		case apierrors.IsInvalid(err):
			w.pendingCharges.setAside(key, one[0].removal.Token, w.now())
		case err != nil:
			return nil, err
		default:
			w.pendingCharges.removeCharged(key, one, results, w.now())
		}
	}
	return w.write(ctx, key, ops)
}

// write executes operations in one compare-and-swap. It decides refusals from the newest object that this process has seen.
// Every admitted removal is recorded in the object that it wrote.
func (w *batchWriter) write(ctx context.Context, key types.NamespacedName, ops []historyOp) ([]opResult, error) {
	tracing.Observe(ctx, w.metrics.batchSize, float64(len(ops)))
	incarnation := w.restoreDetector.Mark() // the incarnation of the core that the decision is based on
	p, err := w.latest(ctx, key, ops)
	for {
		if apierrors.IsNotFound(err) {
			return w.resultsWithoutProtector(key, ops), nil
		}
		if err != nil {
			return nil, fmt.Errorf("read PodProtector %s of core cluster %s: %w", key, w.core, err)
		}
		draft := &escrowDraft{incarnation: incarnation}
		results, changed := w.decide(p, ops, draft)
		if !changed {
			return results, nil
		}
		began := time.Now()
		err = w.spans.traceWrite(ctx, func(ctx context.Context) error { return w.protectors.WriteStatus(ctx, p) }) // rule 1
		switch {
		case errors.Is(err, clusters.ErrCoreRestored), err == nil && !w.restoreDetector.IsSameIncarnation(incarnation): // rule 11
			w.metrics.writes.WithLabelValues(w.core, "conflict").Inc()
			return nil, fmt.Errorf("reserve in PodProtector %s of core cluster %s: %w", key, w.core, clusters.ErrCoreRestored)
		case err == nil: // rule 1: only now are the reservations stored
			w.metrics.writes.WithLabelValues(w.core, "written").Inc()
			w.distance.record(time.Since(began), time.Now())
			w.escrows.stored(draft)
			eachClaim(ops, func(claim *quota.Claim) { claim.Stored = true })
			return results, nil
		case apierrors.IsConflict(err), apierrors.IsNotFound(err): // rule 1: decide again on the newest object
			w.metrics.writes.WithLabelValues(w.core, "conflict").Inc()
			eachClaim(ops, func(claim *quota.Claim) { *claim = quota.Claim{} }) // the write failed, so no claim was stored
			dropSharedClaims(p, ops, results)
			incarnation = w.restoreDetector.Mark()
			rejected := p
			p, err = w.protectors.After(ctx, rejected)
			if err == nil && hasOtherReservations(p, rejected) {
				w.conflicts.record(key)
			}
			w.spans.recordRetry(ctx)
		default:
			w.metrics.writes.WithLabelValues(w.core, "error").Inc()
			return nil, fmt.Errorf("reserve in PodProtector %s of core cluster %s: %w", key, w.core, err)
		}
	}
}

// latest returns the state of a protector that a batch starts from: the newest that this process has seen. If an
// operation refers to a reservation of another replica, latest reads the protector from the core.
func (w *batchWriter) latest(ctx context.Context, key types.NamespacedName, ops []historyOp) (*v1alpha1.PodProtector, error) {
	if slices.ContainsFunc(ops, func(op historyOp) bool { return op.byPeer }) {
		return w.protectors.Read(ctx, key)
	}
	return w.protectors.Newest(ctx, key)
}

// resultsWithoutProtector answers operations on a protector that no longer exists. A lost protector admits no removal
// (rule 10).
func (w *batchWriter) resultsWithoutProtector(key types.NamespacedName, ops []historyOp) []opResult {
	results := make([]opResult, len(ops))
	last := w.states.lastLost(key)
	if last == nil {
		w.escrows.drop(key)
	}
	for i := range results {
		results[i] = resultWithoutProtector(last, ops[i].kind)
	}
	return results
}

// resultWithoutProtector returns the result of an operation on a protector that no longer exists. last is the last state of a
// lost protector; nil if the protector was released.
func resultWithoutProtector(last *v1alpha1.PodProtector, kind opKind) opResult {
	switch {
	case last == nil:
		return opResult{kind: resultReleased}
	case kind == opGiveBack:
		return opResult{}
	default:
		return opResult{resultDecided, quota.Verdict{Outcome: quota.DeniedVanished, Budget: quota.BudgetOf(last)}} // rule 10
	}
}

// decide applies operations to p and reports whether p has to be stored. What was admitted by escrows comes first, and new reservations in advance come last;
// draft records both.
func (w *batchWriter) decide(p *v1alpha1.PodProtector, ops []historyOp, draft *escrowDraft) (results []opResult, changed bool) {
	counts := countsOf(p)
	quota.VoidCountsUntil(p, w.restoreDetector.LostVersion()) // rule 11
	w.escrows.name(draft, p, ops)                             // rule E1
	results, changed = applyOps(p, ops)
	if escrowed := w.escrows.grant(draft, p); !changed && !escrowed { // rule E3
		return results, false
	}
	for cell := range cellsOf(ops, draft) {
		quota.Compact(p, cell, w.now()) // rule 6
	}
	restoreCounts(p, counts)
	quota.Summarize(p)
	return results, true
}

// cellsOf returns the cells whose history a write changes.
func cellsOf(ops []historyOp, draft *escrowDraft) map[string]bool {
	cells := map[string]bool{}
	for i := range ops {
		cells[ops[i].removal.Cell] = true
	}
	for i := range draft.cells {
		cells[draft.cells[i].cell] = true
	}
	return cells
}

// countsOf returns a copy of the stored counts of all cells.
func countsOf(p *v1alpha1.PodProtector) []v1alpha1.Aggregation {
	counts := make([]v1alpha1.Aggregation, len(p.Status.Cells))
	for i := range counts {
		counts[i] = p.Status.Cells[i].Aggregation
	}
	return counts
}

// restoreCounts restores the stored counts. The webhook decides with counts that it knows to be void, but it writes no
// counts: only the aggregator of a cell does (rule 15). The aggregator voids them itself when it detects the restore.
func restoreCounts(p *v1alpha1.PodProtector, counts []v1alpha1.Aggregation) {
	for i := range counts {
		p.Status.Cells[i].Aggregation = counts[i]
	}
}
