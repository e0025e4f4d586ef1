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
	// past detects that the core was restored from a backup.
	past    *clusters.Past
	events  events.EventRecorder
	now     func() time.Time
	metrics *metrics
	// tracer creates spans; nil creates none.
	tracer  *tracing.Tracer
	flights *batch.Batch[types.NamespacedName, ask, answer]
	// roster is the registry of the core's Cells; nil when all cells are named by flags.
	roster *clusters.Roster
	// debts are the pending charges: break-glass removals admitted while the core was unreachable.
	debts *debts
	// handover forwards reservations to other replicas; nil when there are none.
	handover *handover
	// conflicts holds the time of the last write conflict of each protector that had one.
	conflicts sync.Map
	// read reports whether all protectors have been read once. Before that the webhook cannot decide anything for this
	// core.
	read atomic.Bool

	// changed is called after each change of a protector.
	changed func()
	// coverages index the pods that the core's protectors cover.
	coverages *coverages

	mu sync.RWMutex
	// known holds the last state of each protector that the watch has shown.
	known map[types.NamespacedName]known
	// doubts queues the protectors that were deleted, to find out whether a client has released them.
	doubts workqueue.TypedRateLimitingInterface[types.NamespacedName]
}

// ask is one operation on a protector's history: make a reservation, or give one back.
type ask struct {
	removal quota.Removal
	// claim records what this request may give back. The batch writes it; with giveBack it is what an earlier batch
	// wrote there. Only batches of one protector access it, and those run one at a time. So it is correct even for a
	// request whose caller did not wait for its batch.
	claim    *quota.Claim
	giveBack bool
	// elsewhere reports that another replica made the reservation to give back, so that this replica may not have seen
	// it.
	elsewhere bool
	// repays writes only the pending charges.
	repays bool
	// seat holds the spans of the ask; nil when they are not recorded.
	seat *seat
}

func (a ask) reserves() bool { return !a.giveBack && !a.repays }

// answer is the result of an ask. released means that the protector no longer exists and refuses nothing. elsewhere
// means that another replica has answered.
type answer struct {
	verdict   quota.Verdict
	gaveBack  bool
	released  bool
	elsewhere bool
}

func newCore(name string, source cluster.Cluster, past *clusters.Past, metrics *metrics, log logr.Logger, now func() time.Time) *core {
	if past == nil {
		past = &clusters.Past{}
	}
	c := &core{
		name:  name,
		cache: source.GetCache(),
		log:   log.WithValues("core", name),
		protectors: &clusters.Protectors{
			Cache: source.GetClient(), Live: source.GetAPIReader(), Writer: source.GetClient(),
			Past: past,
		},
		past:    past,
		events:  source.GetEventRecorder("breakwater-webhook"),
		metrics: metrics,
		now:     now,

		coverages: newCoverages(),
		debts:     newDebts(),
	}
	c.flights = batch.New(c.fly)
	c.flights.Linger = c.linger
	past.Tell(func() {
		c.log.Info("A core cluster was restored from a backup: removals that its protectors are charged for are refused until all is counted anew")
	})
	metrics.watchWaiting(name, c.flights.Callers)
	metrics.watchVanished(name, c.vanished)
	metrics.watchOwed(name, c.debts.number)
	metrics.watchToken(name, source.GetConfig())
	return c
}

const (
	// busyCrowd is the number of concurrent removals at which the webhook assumes a storm.
	busyCrowd = 4
	// longestLinger limits how long the removals of a storm wait for each other.
	longestLinger = 200 * time.Millisecond
)

// linger returns the batch window. In a storm it gathers removals, because a write costs the core much more than a
// removal costs the webhook. A client that requests one removal after the other never waits. The batch is flushed as
// soon as it holds as many removals as there were recently, since no more are expected. After a conflict, which in a
// storm comes from another replica, it waits for the whole window: the more often replicas write one object, the more
// writes fail.
func (c *core) linger(key types.NamespacedName, crowd int, took time.Duration) (most time.Duration, enough int) {
	if crowd < busyCrowd {
		return 0, 0
	}
	if c.conflicted(key, took) {
		crowd = math.MaxInt
	}
	return min(5*took, longestLinger), crowd
}

// conflicted reports whether a write of a protector has met a conflict within the given duration.
func (c *core) conflicted(key types.NamespacedName, last time.Duration) bool {
	at, ok := c.conflicts.Load(key)
	return ok && time.Since(at.(time.Time)) <= last //nolint:forcetypeassert // the map holds only times
}

// reserve makes a reservation. It joins a batch of this replica or, while other replicas write the same protector, a
// batch of the replica that all of them choose. A replica that returns no valid answer is not asked again for
// suspectFor.
func (c *core) reserve(ctx context.Context, key types.NamespacedName, a ask) (answer, error) {
	ctx, span := c.tracer.Step(ctx, tracing.SpanReserve)
	defer span.End()
	answer, err := c.handOverOrFly(ctx, key, a)
	c.tellReserved(span, key, answer, err)
	return answer, err
}

func (c *core) handOverOrFly(ctx context.Context, key types.NamespacedName, a ask) (answer, error) {
	if c.handover != nil && c.conflicted(key, contentionLasts) {
		if owner := c.handover.to(key); owner != "" {
			answer, err := c.handover.ask(ctx, owner, key, a)
			c.metrics.handedOver.WithLabelValues(c.name, resultOf(err)).Inc()
			if err == nil {
				return answer, nil
			}
			if ctx.Err() == nil {
				c.log.Info("Another replica does not reserve for this one", "replica", owner, "protector", key, "reason", err.Error())
				c.handover.suspect(owner)
			}
			// The other replica may have reserved anyway, or may still do so. The new token makes this a separate
			// reservation.
			a.removal.Token = newToken()
		}
	}
	return c.ride(ctx, key, a)
}

// fly executes all asks for one protector, after its pending charges.
func (c *core) fly(ctx context.Context, key types.NamespacedName, asks []ask) ([]answer, error) {
	ctx, span := c.takeOff(ctx, key, asks)
	defer span.End()
	owed := c.debts.of(key)
	answers, err := c.settle(ctx, key, slices.Concat(owed, asks))
	tracing.Fail(span, err)
	if err != nil {
		return nil, err
	}
	c.debts.paid(key, owed)
	return answers[len(owed):], nil
}

// settle executes asks in one compare-and-swap. It decides refusals from the newest object that this process has seen.
// Every admitted removal is recorded in the object that it wrote.
func (c *core) settle(ctx context.Context, key types.NamespacedName, asks []ask) ([]answer, error) {
	tracing.Observe(ctx, c.metrics.flightSize, float64(len(asks)))
	era := c.past.Mark() // the incarnation of the core that the decision is based on
	p, err := c.begin(ctx, key, asks)
	for {
		if apierrors.IsNotFound(err) {
			return c.withoutProtector(key, asks), nil
		}
		if err != nil {
			return nil, fmt.Errorf("read PodProtector %s of core cluster %s: %w", key, c.name, err)
		}
		counts := countsOf(p)
		quota.VoidUntil(p, c.past.Lost())
		answers, changed := settleAsks(p, asks)
		if !changed {
			return answers, nil
		}
		for i := range asks {
			if cell := asks[i].removal.Cell; i == 0 || cell != asks[i-1].removal.Cell {
				quota.Compact(p, cell, c.now())
			}
		}
		restoreCounts(p, counts)
		quota.Summarize(p)
		err = c.write(ctx, p)
		switch {
		case errors.Is(err, clusters.ErrAnotherPast), err == nil && !c.past.IsSince(era):
			c.metrics.writes.WithLabelValues(c.name, "conflict").Inc()
			return nil, fmt.Errorf("reserve in PodProtector %s of core cluster %s: %w", key, c.name, clusters.ErrAnotherPast)
		case err == nil:
			c.metrics.writes.WithLabelValues(c.name, "written").Inc()
			eachClaim(asks, func(claim *quota.Claim) { claim.Stored = true })
			return answers, nil
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			c.metrics.writes.WithLabelValues(c.name, "conflict").Inc()
			c.conflicts.Store(key, time.Now())
			eachClaim(asks, func(claim *quota.Claim) { *claim = quota.Claim{} }) // the write failed, so no claim was stored
			era = c.past.Mark()
			p, err = c.protectors.After(ctx, p)
			c.tellRetry(ctx)
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

// begin returns the state of a protector that a batch starts from: the newest that this process has seen. If an ask
// refers to a reservation of another replica, begin reads the protector from the core.
func (c *core) begin(ctx context.Context, key types.NamespacedName, asks []ask) (*v1alpha1.PodProtector, error) {
	if slices.ContainsFunc(asks, func(a ask) bool { return a.elsewhere }) {
		return c.protectors.Read(ctx, key)
	}
	return c.protectors.Newest(ctx, key)
}

// settleAsks applies asks to the history of p, and reports whether the history changed. It processes them in the order
// in which they were requested: callers that waited for one batch arrive at the next protector all at once, in any
// order.
func settleAsks(p *v1alpha1.PodProtector, asks []ask) (answers []answer, changed bool) {
	byTime := func(a, b ask) int { return a.removal.At.Compare(b.removal.At) }
	if slices.IsSortedFunc(asks, byTime) {
		return settleInOrder(p, asks)
	}
	turns := make([]int, len(asks))
	for i := range turns {
		turns[i] = i
	}
	slices.SortStableFunc(turns, func(i, j int) int { return byTime(asks[i], asks[j]) })
	inTurn := make([]ask, len(asks))
	for turn, i := range turns {
		inTurn[turn] = asks[i]
	}
	answered, changed := settleInOrder(p, inTurn)
	answers = make([]answer, len(asks))
	for turn, i := range turns {
		answers[i] = answered[turn]
	}
	return answers, changed
}

func settleInOrder(p *v1alpha1.PodProtector, asks []ask) (answers []answer, changed bool) {
	for len(asks) > 0 {
		first := asks[0]
		if first.repays {
			answers, asks = append(answers, answer{}), asks[1:]
			continue
		}
		if first.giveBack {
			gaveBack := quota.GiveBack(p, first.removal.Cell, first.removal.PodUID, *first.claim)
			answers, asks, changed = append(answers, answer{gaveBack: gaveBack}), asks[1:], changed || gaveBack
			continue
		}
		var removals []quota.Removal
		for len(removals) < len(asks) && asks[len(removals)].reserves() {
			removals = append(removals, asks[len(removals)].removal)
		}
		for i, verdict := range quota.Decide(p, removals) {
			*asks[i].claim = verdict.Claim
			answers, changed = append(answers, answer{verdict: verdict}), changed || verdict.Outcome.Written()
		}
		asks = asks[len(removals):]
	}
	return answers, changed
}

// eachClaim applies change to the claims of the asks that reserve.
func eachClaim(asks []ask, change func(*quota.Claim)) {
	for _, a := range asks {
		if a.reserves() {
			change(a.claim)
		}
	}
}
