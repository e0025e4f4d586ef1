package sharder

import (
	"context"
	"errors"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// PassReconciler moves the objects of rings to their shards. Each ring has at most one pass at a time.
type PassReconciler struct {
	// getRing reads a ClusterRing from a cache.
	getRing func(ctx context.Context, name string) (*v1alpha1.ClusterRing, error)
	// webhook is how the API server reaches the sharder, without a path.
	webhook    admissionregistrationv1.WebhookClientConfig
	objects    objects
	namespaces namespaceLabeler
	registry   shardRegistry
	checkSpec  func(context.Context, *v1alpha1.ClusterRingSpec) (layout, []problem)
	events     events.EventRecorder
	metrics    *Metrics
	results    *passResults
	clock      clock
	rings      ringHistories
}

// clock measures the intervals of the sharder.
type clock struct {
	timing timing
	// now is a monotonic clock, and wait sleeps for a duration of it.
	now  func() time.Time
	wait func(ctx context.Context, duration time.Duration) error
}

// ringHistories are what is kept of rings from one pass to the next. It is safe for concurrent use.
type ringHistories struct {
	mu     sync.Mutex
	byName map[string]*history
	// requested has the rings of which a pass was requested.
	requested map[string]bool
}

func newRingHistories() ringHistories {
	return ringHistories{byName: map[string]*history{}, requested: map[string]bool{}}
}

// shardRegistry provides the shards of rings.
type shardRegistry interface {
	Forget(ring string)
	HasSynced() bool
	Of(of *v1alpha1.ClusterRing) []v1alpha1.RingMember
	Shards(of *v1alpha1.ClusterRing) *ring.Shards
	Holder(of *v1alpha1.ClusterRing, shard string) string
	IsGone(ctx context.Context, of *v1alpha1.ClusterRing, shard string) (bool, error)
	Revoke(ctx context.Context, of *v1alpha1.ClusterRing, shard string) error
}

// history is what is kept of a ring from one pass to the next.
type history struct {
	uid types.UID
	schedule
	moves *moves
}

// These are the outcomes of passes.
const (
	// passDone means that all objects were with their shards.
	passDone = "done"
	// passLight means that a light pass found nothing to do.
	passLight = "light"
	// passAgain means that the pass changed or left something, so that another pass follows.
	passAgain = "again"
	// passOutdated means that the pass was abandoned because the ring or its shards changed.
	passOutdated = "outdated"
	// passFailed means that the pass could not read all objects.
	passFailed = "failed"
)

// Reconcile makes a pass if one is due. It returns when no more objects move.
func (r *PassReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	clusterRing, err := r.getRing(ctx, request.Name)
	if apierrors.IsNotFound(err) {
		r.forget(request.Name)
	}
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	selector, err := r.selectorOf(&clusterRing.Spec)
	switch {
	case len(clusterRing.Spec.Resources) == 0 || err != nil:
		return reconcile.Result{}, nil // Reconciler reports that
	case !r.registry.HasSynced():
		return reconcile.Result{RequeueAfter: r.clock.timing.poll}, nil // shards that are not in the cache yet would seem to be dead
	}
	h := r.historyOf(clusterRing)
	shards := r.registry.Shards(clusterRing)
	h.observe(basis{clusterRing.Generation, shards}, r.clock.now())
	if wait := h.due(&clusterRing.Spec, r.clock.now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	r.makePass(ctx, clusterRing, shards, selector, h)
	return reconcile.Result{RequeueAfter: max(h.due(&clusterRing.Spec, r.clock.now()), time.Millisecond)}, nil
}

// makePass makes a pass, schedules the next one, and reports the outcome.
func (r *PassReconciler) makePass(ctx context.Context, clusterRing *v1alpha1.ClusterRing, shards *ring.Shards, selector labels.Selector, h *history) {
	h.isRequested = r.takeRequest(clusterRing.Name) || h.isRequested
	resources, problems := r.checkSpec(ctx, &clusterRing.Spec)
	r.results.update(clusterRing.Name, func(f *passResult) { f.inspection = inspection{clusterRing.Generation, problems, r.clock.now()} })
	p := r.newPass(clusterRing, shards, selector, resources, h.nextScope(clusterRing, problems, r.clock.now()), h)
	h.begin(r.clock.now())
	outcome := r.scheduleNext(ctx, p, h, p.run(ctx))
	if outcome == passDone {
		h.recordFull(problems, objectCounts{p.tally.listed, p.tally.count.members()})
	}
	r.metrics.observePass(clusterRing.Name, outcome, r.clock.now().Sub(h.began))
	log.FromContext(ctx).V(1).Info("Completed pass",
		"outcome", outcome, "written", p.tally.written, "left", p.tally.deferred, "objects", p.tally.count.members())
}

// scheduleNext schedules the next pass, and returns the outcome.
func (r *PassReconciler) scheduleNext(ctx context.Context, p *pass, h *history, err error) string {
	switch {
	case errors.Is(err, errOutdated):
		h.restart(r.clock.now())
		return passOutdated
	case errors.Is(err, errOverdue):
		h.restart(r.clock.now())
		return passAgain
	case errors.Is(err, errExpired):
		h.end(false, r.clock.now())
		return passAgain
	case err != nil:
		h.end(false, r.clock.now())
		if ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Failed to read all objects", "ring", p.planner.ring.Name)
			r.results.update(p.planner.ring.Name, func(f *passResult) { f.balanced = failedCondition(err) })
		}
		return passFailed
	case p.tally.written+p.tally.deferred > 0:
		h.end(false, r.clock.now())
		return passAgain
	case p.scope == lightPass:
		h.end(true, r.clock.now())
		return passLight
	default:
		h.end(true, r.clock.now())
		return passDone
	}
}

// requestPass requests a whole pass of a ring: some of its objects may not be with their shards.
func (r *PassReconciler) requestPass(ring string) {
	r.rings.mu.Lock()
	defer r.rings.mu.Unlock()
	r.rings.requested[ring] = true
}

// takeRequest reports whether a pass was requested, and clears the request.
func (r *PassReconciler) takeRequest(ring string) bool {
	r.rings.mu.Lock()
	defer r.rings.mu.Unlock()
	defer delete(r.rings.requested, ring)
	return r.rings.requested[ring]
}

// historyOf returns the history of a ring, or a new one if the ring was recreated under the same name.
func (r *PassReconciler) historyOf(clusterRing *v1alpha1.ClusterRing) *history {
	r.rings.mu.Lock()
	defer r.rings.mu.Unlock()
	h := r.rings.byName[clusterRing.Name]
	if h == nil || h.uid != clusterRing.UID {
		h = &history{uid: clusterRing.UID, schedule: schedule{timing: r.clock.timing}, moves: newMoves()}
		r.rings.byName[clusterRing.Name] = h
		r.metrics.createSeries(clusterRing.Name)
	}
	h.isRequested = r.rings.requested[clusterRing.Name]
	return h
}

func (r *PassReconciler) forget(ring string) {
	r.results.remove(ring)
	r.metrics.deleteSeries(ring)
	r.rings.mu.Lock()
	defer r.rings.mu.Unlock()
	delete(r.rings.byName, ring)
	delete(r.rings.requested, ring)
}

// selectorOf returns the selector of a ring's namespaces.
func (r *PassReconciler) selectorOf(spec *v1alpha1.ClusterRingSpec) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(webhookconfig.RingNamespaces(spec, &r.webhook))
}
