package webhook

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/batch"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// core is one core cluster. It finds the protectors that cover a pod, and batches writes to their status.
type core struct {
	name       string
	cache      cache.Informers
	log        logr.Logger
	protectors *clusters.Protectors
	// restoreDetector detects that the core was restored from a backup.
	restoreDetector *clusters.RestoreDetector
	events          events.EventRecorder
	now             func() time.Time
	metrics         *metrics
	// tracer creates spans; nil creates none.
	tracer  *tracing.Tracer
	batches *batch.Batcher[types.NamespacedName, historyOp, opResult]
	// cellRegistry is the registry of the core's Cells; nil when all cells are named by flags.
	cellRegistry *clusters.CellRegistry
	// pendingCharges are the pending charges: break-glass removals admitted while the core was unreachable.
	pendingCharges *pendingCharges
	// forwarder forwards reservations to other replicas; nil when there are none.
	forwarder *forwarder
	// conflicts holds the time of the last write conflict of each protector that had one.
	conflicts sync.Map
	// synced reports whether all protectors have been read once. Before that the webhook cannot decide anything for this
	// core.
	synced atomic.Bool

	// onChange is called after each change of a protector.
	onChange func()
	// coverage index the pods that the core's protectors cover.
	coverage *coverageIndex

	mu sync.RWMutex
	// lastStates holds the last state of each protector that the watch has shown.
	lastStates map[types.NamespacedName]protectorState
	// lostQueue queues the protectors that were deleted, to find out whether a client has released them.
	lostQueue workqueue.TypedRateLimitingInterface[types.NamespacedName]
}

// historyOp is one operation on a protector's history: make a reservation, or give one back.
type historyOp struct {
	removal quota.Removal
	// claim records what this request may give back. The batch writes it; with giveBack it is what an earlier batch
	// wrote there. Only batches of one protector access it, and those run one at a time. So it is correct even for a
	// request whose caller did not wait for its batch.
	claim    *quota.Claim
	giveBack bool
	// byPeer reports that another replica made the reservation to give back, so that this replica may not have seen
	// it.
	byPeer bool
	// flushOnly writes only the pending charges.
	flushOnly bool
	// spans holds the spans of the operation; nil when they are not recorded.
	spans *opSpans
}

func (a historyOp) isReservation() bool { return !a.giveBack && !a.flushOnly }

// opResult is the result of an operation. released means that the protector no longer exists and refuses nothing. elsewhere
// means that another replica has answered.
type opResult struct {
	verdict  quota.Verdict
	gaveBack bool
	released bool
	byPeer   bool
}

func newCore(name string, source cluster.Cluster, restoreDetector *clusters.RestoreDetector, metrics *metrics, log logr.Logger, now func() time.Time) *core {
	if restoreDetector == nil {
		restoreDetector = &clusters.RestoreDetector{}
	}
	c := &core{
		name:  name,
		cache: source.GetCache(),
		log:   log.WithValues("core", name),
		protectors: &clusters.Protectors{
			Cache: source.GetClient(), Live: source.GetAPIReader(), Writer: source.GetClient(),
			RestoreDetector: restoreDetector,
		},
		restoreDetector: restoreDetector,
		events:          source.GetEventRecorder("breakwater-webhook"),
		metrics:         metrics,
		now:             now,

		coverage:       newCoverageIndex(),
		pendingCharges: newPendingCharges(),
	}
	c.batches = batch.New(c.flush)
	c.batches.Window = c.batchWindow
	restoreDetector.OnRestore(func() {
		c.log.Info("Detected restore of core cluster, refusing removals of its protectors until all cells are counted again")
	})
	metrics.registerWaiting(name, c.batches.Callers)
	metrics.registerLostProtectors(name, c.lostCount)
	metrics.registerPendingCharges(name, c.pendingCharges.count)
	metrics.registerTokenExpiry(name, source.GetConfig())
	return c
}

const (
	// stormQueueDepth is the number of concurrent removals at which the webhook assumes a storm.
	stormQueueDepth = 4
	// maxBatchWindow limits how long the removals of a storm wait for each other.
	maxBatchWindow = 200 * time.Millisecond
)

// batchWindow returns the batch window. In a storm it gathers removals, because a write costs the core much more than a
// removal costs the webhook. A client that requests one removal after the other never waits. The batch is flushed as
// soon as it holds as many removals as there were recently, since no more are expected. After a conflict, which in a
// storm comes from another replica, it waits for the whole window: the more often replicas write one object, the more
// writes fail.
func (c *core) batchWindow(key types.NamespacedName, queueDepth int, took time.Duration) (window time.Duration, enough int) {
	if queueDepth < stormQueueDepth {
		return 0, 0
	}
	if c.hasRecentConflict(key, took) {
		queueDepth = math.MaxInt
	}
	return min(5*took, maxBatchWindow), queueDepth
}

// hasRecentConflict reports whether a write of a protector has met a conflict within the given duration.
func (c *core) hasRecentConflict(key types.NamespacedName, within time.Duration) bool {
	at, ok := c.conflicts.Load(key)
	return ok && time.Since(at.(time.Time)) <= within //nolint:forcetypeassert // the map holds only times
}

// reserve makes a reservation. It joins a batch of this replica or, while other replicas write the same protector, a
// batch of the replica that all of them choose. A replica that returns no valid answer is not asked again for
// suspectDuration.
func (c *core) reserve(ctx context.Context, key types.NamespacedName, a historyOp) (opResult, error) {
	ctx, span := c.tracer.Step(ctx, tracing.SpanReserve)
	defer span.End()
	answer, err := c.forwardOrEnqueue(ctx, key, a)
	c.recordReservation(span, key, answer, err)
	return answer, err
}

func (c *core) forwardOrEnqueue(ctx context.Context, key types.NamespacedName, a historyOp) (opResult, error) {
	if c.forwarder != nil && c.hasRecentConflict(key, forwardAfterConflict) {
		if owner := c.forwarder.ownerOf(key); owner != "" {
			answer, err := c.forwarder.reserve(ctx, owner, key, a)
			c.metrics.forwarded.WithLabelValues(c.name, forwardResult(err)).Inc()
			if err == nil {
				return answer, nil
			}
			if ctx.Err() == nil {
				c.log.Info("Forwarding to another replica failed, reserving locally", "replica", owner, "protector", key, "reason", err.Error())
				c.forwarder.markSuspect(owner)
			}
			// The other replica may have reserved anyway, or may still do so. The new token makes this a separate
			// reservation.
			a.removal.Token = newToken()
		}
	}
	return c.enqueue(ctx, key, a)
}

// flush executes all operations for one protector, after its pending charges.
func (c *core) flush(ctx context.Context, key types.NamespacedName, ops []historyOp) ([]opResult, error) {
	ctx, span := c.startBatchSpan(ctx, key, ops)
	defer span.End()
	pending := c.pendingCharges.ops(key)
	results, err := c.writeBatch(ctx, key, slices.Concat(pending, ops))
	tracing.RecordError(span, err)
	if err != nil {
		return nil, err
	}
	c.pendingCharges.markWritten(key, pending)
	return results[len(pending):], nil
}

// writeBatch executes operations in one compare-and-swap. It decides refusals from the newest object that this process has seen.
// Every admitted removal is recorded in the object that it wrote.
func (c *core) writeBatch(ctx context.Context, key types.NamespacedName, ops []historyOp) ([]opResult, error) {
	tracing.Observe(ctx, c.metrics.batchSize, float64(len(ops)))
	incarnation := c.restoreDetector.Mark() // the incarnation of the core that the decision is based on
	p, err := c.latest(ctx, key, ops)
	for {
		if apierrors.IsNotFound(err) {
			return c.resultsWithoutProtector(key, ops), nil
		}
		if err != nil {
			return nil, fmt.Errorf("read PodProtector %s of core cluster %s: %w", key, c.name, err)
		}
		counts := countsOf(p)
		quota.VoidCountsUntil(p, c.restoreDetector.LostVersion())
		results, changed := applyOps(p, ops)
		if !changed {
			return results, nil
		}
		for i := range ops {
			if cell := ops[i].removal.Cell; i == 0 || cell != ops[i-1].removal.Cell {
				quota.Compact(p, cell, c.now())
			}
		}
		restoreCounts(p, counts)
		quota.Summarize(p)
		err = c.write(ctx, p)
		switch {
		case errors.Is(err, clusters.ErrCoreRestored), err == nil && !c.restoreDetector.IsSameIncarnation(incarnation):
			c.metrics.writes.WithLabelValues(c.name, "conflict").Inc()
			return nil, fmt.Errorf("reserve in PodProtector %s of core cluster %s: %w", key, c.name, clusters.ErrCoreRestored)
		case err == nil:
			c.metrics.writes.WithLabelValues(c.name, "written").Inc()
			eachClaim(ops, func(claim *quota.Claim) { claim.Stored = true })
			return results, nil
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			c.metrics.writes.WithLabelValues(c.name, "conflict").Inc()
			c.conflicts.Store(key, time.Now())
			eachClaim(ops, func(claim *quota.Claim) { *claim = quota.Claim{} }) // the write failed, so no claim was stored
			incarnation = c.restoreDetector.Mark()
			p, err = c.protectors.After(ctx, p)
			c.recordRetry(ctx)
		default:
			c.metrics.writes.WithLabelValues(c.name, "error").Inc()
			return nil, fmt.Errorf("reserve in PodProtector %s of core cluster %s: %w", key, c.name, err)
		}
	}
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

// latest returns the state of a protector that a batch starts from: the newest that this process has seen. If an
// operation refers to a reservation of another replica, begin reads the protector from the core.
func (c *core) latest(ctx context.Context, key types.NamespacedName, ops []historyOp) (*v1alpha1.PodProtector, error) {
	if slices.ContainsFunc(ops, func(a historyOp) bool { return a.byPeer }) {
		return c.protectors.Read(ctx, key)
	}
	return c.protectors.Newest(ctx, key)
}

// applyOps applies operations to the history of p, and reports whether the history changed. It processes them in the order
// in which they were requested: callers that waited for one batch arrive at the next protector all at once, in any
// order.
func applyOps(p *v1alpha1.PodProtector, ops []historyOp) (results []opResult, changed bool) {
	byTime := func(a, b historyOp) int { return a.removal.At.Compare(b.removal.At) }
	if slices.IsSortedFunc(ops, byTime) {
		return applyInOrder(p, ops)
	}
	order := make([]int, len(ops))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return byTime(ops[i], ops[j]) })
	ordered := make([]historyOp, len(ops))
	for position, i := range order {
		ordered[position] = ops[i]
	}
	orderedResults, changed := applyInOrder(p, ordered)
	results = make([]opResult, len(ops))
	for position, i := range order {
		results[i] = orderedResults[position]
	}
	return results, changed
}

func applyInOrder(p *v1alpha1.PodProtector, ops []historyOp) (results []opResult, changed bool) {
	for len(ops) > 0 {
		first := ops[0]
		if first.flushOnly {
			results, ops = append(results, opResult{}), ops[1:]
			continue
		}
		if first.giveBack {
			gaveBack := quota.ReleaseClaim(p, first.removal.Cell, first.removal.PodUID, *first.claim)
			results, ops, changed = append(results, opResult{gaveBack: gaveBack}), ops[1:], changed || gaveBack
			continue
		}
		var removals []quota.Removal
		for len(removals) < len(ops) && ops[len(removals)].isReservation() {
			removals = append(removals, ops[len(removals)].removal)
		}
		for i, verdict := range quota.Decide(p, removals) {
			*ops[i].claim = verdict.Claim
			results, changed = append(results, opResult{verdict: verdict}), changed || verdict.Outcome.Written()
		}
		ops = ops[len(removals):]
	}
	return results, changed
}

// eachClaim applies change to the claims of the operations that reserve.
func eachClaim(ops []historyOp, change func(*quota.Claim)) {
	for _, a := range ops {
		if a.isReservation() {
			change(a.claim)
		}
	}
}
