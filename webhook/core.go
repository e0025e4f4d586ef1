package webhook

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/batch"
	"github.com/breakwater-k8s/breakwater/internal/fleet"
	"github.com/breakwater-k8s/breakwater/internal/quota"
	"github.com/breakwater-k8s/breakwater/internal/selectorindex"
)

// core is one core cluster: which of its protectors cover a pod, and flights to their status.
type core struct {
	name       string
	cache      cache.Informers
	log        logr.Logger
	protectors *fleet.Protectors
	events     events.EventRecorder
	now        func() time.Time
	metrics    *metrics
	flights    *batch.Batch[types.NamespacedName, ask, answer]
	// contended has the protectors whose last flight met a conflict.
	contended sync.Map
	// read tells that all protectors have been read once. Before that nothing is known of the core.
	read atomic.Bool

	mu    sync.RWMutex
	index *selectorindex.Index[types.NamespacedName]
}

// ask is one thing to do to a protector's history: to make a reservation, or to give one back.
type ask struct {
	removal quota.Removal
	// claim is where the flight notes what this very request may give back. With giveBack it is what an earlier
	// flight noted there. Only flights of one protector touch it, which are one at a time, so that it is true even
	// for a request whose caller did not wait for its flight.
	claim    *quota.Claim
	giveBack bool
}

// answer is what became of it. vanished means that the protector does not exist any more.
type answer struct {
	verdict  quota.Verdict
	gaveBack bool
	vanished bool
}

func newCore(name string, source cluster.Cluster, metrics *metrics, log logr.Logger, now func() time.Time) *core {
	c := &core{
		name:  name,
		cache: source.GetCache(),
		log:   log.WithValues("core", name),
		protectors: &fleet.Protectors{
			Cache: source.GetClient(), Live: source.GetAPIReader(), Writer: source.GetClient(),
		},
		events:  source.GetEventRecorder("breakwater-webhook"),
		metrics: metrics,
		now:     now,
		index:   selectorindex.New[types.NamespacedName](),
	}
	c.flights = batch.New(c.fly)
	c.flights.Linger = c.linger
	metrics.watchWaiting(name, c.flights.Callers)
	return c
}

const (
	// busyFlight is the number of removals in one flight from which on a storm is assumed.
	busyFlight = 4
	// longestLinger bounds what a storm's removals wait for each other.
	longestLinger = 100 * time.Millisecond
)

// linger gathers removals in a storm: a write costs the core much more than a removal costs the webhook, and whoever asks
// for one removal after the other never waits. After a conflict, which in a storm is another replica, all of the time is
// waited: the more often replicas write one object, the more writes are in vain.
func (c *core) linger(key types.NamespacedName, removals int, took time.Duration) (least, most time.Duration) {
	if removals < busyFlight {
		return 0, 0
	}
	most = min(5*took, longestLinger)
	if _, contended := c.contended.Load(key); contended {
		return most, most
	}
	return 0, most
}

// fly answers all that was asked of one protector, in one compare-and-swap. Refusals are decided from the
// newest object that this process knows; whatever is admitted stands in the object that was written.
func (c *core) fly(ctx context.Context, key types.NamespacedName, asks []ask) ([]answer, error) {
	c.metrics.flightSize.Observe(float64(len(asks)))
	c.contended.Delete(key)
	p, err := c.protectors.Newest(ctx, key)
	for {
		if apierrors.IsNotFound(err) {
			return allVanished(len(asks)), nil
		}
		if err != nil {
			return nil, fmt.Errorf("read PodProtector %s of core cluster %s: %w", key, c.name, err)
		}
		answers, changed := settleAsks(p, asks)
		if !changed {
			return answers, nil
		}
		quota.Compact(p, c.now())
		quota.Summarize(p)
		err = c.protectors.WriteStatus(ctx, p)
		switch {
		case err == nil:
			c.metrics.writes.WithLabelValues(c.name, "written").Inc()
			eachClaim(asks, func(claim *quota.Claim) { claim.Stored = true })
			return answers, nil
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			c.metrics.writes.WithLabelValues(c.name, "conflict").Inc()
			c.contended.Store(key, true)
			eachClaim(asks, func(claim *quota.Claim) { *claim = quota.Claim{} }) // they were not stored
			p, err = c.protectors.After(ctx, p)
		default:
			c.metrics.writes.WithLabelValues(c.name, "error").Inc()
			return nil, fmt.Errorf("reserve in PodProtector %s of core cluster %s: %w", key, c.name, err)
		}
	}
}

// settleAsks does what is asked to the history of p, in order, and tells whether it changed.
func settleAsks(p *v1alpha1.PodProtector, asks []ask) (answers []answer, changed bool) {
	for len(asks) > 0 {
		if first := asks[0]; first.giveBack {
			gaveBack := quota.GiveBack(p, first.removal.Cell, first.removal.PodUID, *first.claim)
			answers, asks, changed = append(answers, answer{gaveBack: gaveBack}), asks[1:], changed || gaveBack
			continue
		}
		var removals []quota.Removal
		for len(removals) < len(asks) && !asks[len(removals)].giveBack {
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
		if !a.giveBack {
			change(a.claim)
		}
	}
}

func allVanished(n int) []answer {
	answers := make([]answer, n)
	for i := range answers {
		answers[i].vanished = true
	}
	return answers
}
