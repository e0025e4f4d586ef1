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

// core is one core cluster: which of its protectors cover a pod, and flights to their status.
type core struct {
	name       string
	cache      cache.Informers
	log        logr.Logger
	protectors *clusters.Protectors
	// past notices that the core was restored from a backup.
	past    *clusters.Past
	events  events.EventRecorder
	now     func() time.Time
	metrics *metrics
	// tracer makes spans; nil makes none.
	tracer  *tracing.Tracer
	flights *batch.Batch[types.NamespacedName, ask, answer]
	// roster knows the core's Cells; nil when only flags tell of cells.
	roster *clusters.Roster
	// debts are what was forced while the core did not answer.
	debts *debts
	// handover knows the other replicas; nil when there are none.
	handover *handover
	// conflicts has the time of the last conflict of each protector that had one.
	conflicts sync.Map
	// read tells that all protectors have been read once. Before that nothing is known of the core.
	read atomic.Bool

	// changed is told of each change of a protector.
	changed func()
	// coverages are what its protectors cover.
	coverages *coverages

	mu sync.RWMutex
	// known are its protectors as the watch has shown them.
	known map[types.NamespacedName]known
	// doubts are those that are gone: it is to be found out whether somebody has released them.
	doubts workqueue.TypedRateLimitingInterface[types.NamespacedName]
}

// ask is one thing to do to a protector's history: to make a reservation, or to give one back.
type ask struct {
	removal quota.Removal
	// claim is where the flight notes what this very request may give back. With giveBack it is what an earlier
	// flight noted there. Only flights of one protector touch it, which are one at a time, so that it is true even
	// for a request whose caller did not wait for its flight.
	claim    *quota.Claim
	giveBack bool
	// elsewhere tells that what is given back was reserved by another replica, so that this one may not know of it.
	elsewhere bool
	// repays asks for nothing but what is owed.
	repays bool
	// seat has the spans of the ask; nil when they are not recorded.
	seat *seat
}

func (a ask) reserves() bool { return !a.giveBack && !a.repays }

// answer is what became of it. released means that the protector does not exist any more and refuses nothing, elsewhere that
// another replica has answered.
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
	// busyCrowd is the number of removals at a time from which on a storm is assumed.
	busyCrowd = 4
	// longestLinger bounds what a storm's removals wait for each other.
	longestLinger = 200 * time.Millisecond
)

// linger gathers removals in a storm: a write costs the core much more than a removal costs the webhook, and whoever asks
// for one removal after the other never waits. When as many are gathered as there were lately, nobody else is to be
// expected. But after a conflict, which in a storm is another replica, all of the time is waited: the more often replicas
// write one object, the more writes are in vain.
func (c *core) linger(key types.NamespacedName, crowd int, took time.Duration) (most time.Duration, enough int) {
	if crowd < busyCrowd {
		return 0, 0
	}
	if c.conflicted(key, took) {
		crowd = math.MaxInt
	}
	return min(5*took, longestLinger), crowd
}

// conflicted tells whether a write of a protector has met a conflict in the last time.
func (c *core) conflicted(key types.NamespacedName, last time.Duration) bool {
	at, ok := c.conflicts.Load(key)
	return ok && time.Since(at.(time.Time)) <= last //nolint:forcetypeassert // nothing else is stored there
}

// reserve asks for a reservation: in a flight of this replica or, while others write the same protector, in one of the
// replica that they all agree on. A replica that does not answer well is let alone for a while.
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
			// It may have reserved all the same, or do so yet. What is reserved now is another reservation.
			a.removal.Token = newToken()
		}
	}
	return c.ride(ctx, key, a)
}

// fly answers all that was asked of one protector, after what it is owed.
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

// settle answers asks in one compare-and-swap. Refusals are decided from the newest object that this process knows; whatever is
// admitted stands in the object that was written.
func (c *core) settle(ctx context.Context, key types.NamespacedName, asks []ask) ([]answer, error) {
	tracing.Observe(ctx, c.metrics.flightSize, float64(len(asks)))
	era := c.past.Mark() // of what is decided on
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
			eachClaim(asks, func(claim *quota.Claim) { *claim = quota.Claim{} }) // they were not stored
			era = c.past.Mark()
			p, err = c.protectors.After(ctx, p)
			c.tellRetry(ctx)
		default:
			c.metrics.writes.WithLabelValues(c.name, "error").Inc()
			return nil, fmt.Errorf("reserve in PodProtector %s of core cluster %s: %w", key, c.name, err)
		}
	}
}

// countsOf returns the counts of all cells as they are stored.
func countsOf(p *v1alpha1.PodProtector) []v1alpha1.Aggregation {
	counts := make([]v1alpha1.Aggregation, len(p.Status.Cells))
	for i := range counts {
		counts[i] = p.Status.Cells[i].Aggregation
	}
	return counts
}

// restoreCounts puts them back. The webhook decides by counts that it knows to be void, but it writes none: only the aggregator of a cell does
// (rule 15). The aggregator voids them itself when it notices the restore.
func restoreCounts(p *v1alpha1.PodProtector, counts []v1alpha1.Aggregation) {
	for i := range counts {
		p.Status.Cells[i].Aggregation = counts[i]
	}
}

// begin returns the state of a protector that a flight begins with: what this process knows, unless a reservation is to be
// found that another one has made.
func (c *core) begin(ctx context.Context, key types.NamespacedName, asks []ask) (*v1alpha1.PodProtector, error) {
	if slices.ContainsFunc(asks, func(a ask) bool { return a.elsewhere }) {
		return c.protectors.Read(ctx, key)
	}
	return c.protectors.Newest(ctx, key)
}

// settleAsks does what is asked to the history of p, and tells whether it changed. Whoever asked first has the first turn: those
// whom one flight has kept waiting come to the next protector all at once, and in any order.
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

// eachClaim changes what asks have claimed in this flight.
func eachClaim(asks []ask, change func(*quota.Claim)) {
	for _, a := range asks {
		if a.reserves() {
			change(a.claim)
		}
	}
}
