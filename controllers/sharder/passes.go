package sharder

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// Passes moves the objects of rings to their shards. Each ring has at most one pass at a time.
type Passes struct {
	// rings reads a ClusterRing from a cache.
	rings      func(ctx context.Context, name string) (*v1alpha1.ClusterRing, error)
	objects    objects
	namespaces labelled
	roll       roll
	inspect    func(context.Context, *v1alpha1.ClusterRingSpec) (layout, []problem)
	events     events.EventRecorder
	metrics    *Metrics
	findings   *findings
	tempo      tempo
	// now is a monotonic clock, and wait sleeps for a duration of it.
	now  func() time.Time
	wait func(ctx context.Context, duration time.Duration) error

	mu     sync.Mutex
	of     map[string]*history
	kicked map[string]bool
}

// roll provides the shards of rings.
type roll interface {
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
	ring types.UID
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
func (r *Passes) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	of, err := r.rings(ctx, request.Name)
	if apierrors.IsNotFound(err) {
		r.forget(request.Name)
	}
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	selector, err := selectorOf(&of.Spec)
	switch {
	case len(of.Spec.Resources) == 0 || err != nil:
		return reconcile.Result{}, nil // Reconciler reports that
	case !r.roll.HasSynced():
		return reconcile.Result{RequeueAfter: r.tempo.poll}, nil // shards that are not in the cache yet would seem to be dead
	}
	h := r.historyOf(of)
	shards := r.roll.Shards(of)
	h.observe(basis{of.Generation, shards}, r.now())
	if wait := h.due(&of.Spec, r.now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	h.isKicked = r.unkick(of.Name) || h.isKicked
	resources, problems := r.inspect(ctx, &of.Spec)
	r.findings.change(of.Name, func(f *finding) { f.inspection = inspection{of.Generation, problems, r.now()} })
	p := &pass{
		Passes: r, ring: of, shards: shards, selector: selector, layout: resources, moves: h.moves, strays: newStrays(),
		extent: h.extent(of, problems, r.now()), rested: h.rested,
		count: count{of: map[string]int64{}}, looked: map[*resource]bool{}, from: map[string]int64{}, landed: map[id]landed{},
	}
	h.begin(r.now())
	outcome := r.judge(ctx, p, h, p.run(ctx))
	if outcome == passDone {
		h.rest(problems, census{p.listed, p.count.assigned + p.count.unassigned})
	}
	r.metrics.pass(of.Name, outcome, r.now().Sub(h.began))
	log.FromContext(ctx).V(1).Info("A pass has ended", "outcome", outcome, "written", p.written, "left", p.left, "objects", p.count.assigned+p.count.unassigned)
	return reconcile.Result{RequeueAfter: max(h.due(&of.Spec, r.now()), time.Millisecond)}, nil
}

// judge schedules the next pass, and returns the outcome.
func (r *Passes) judge(ctx context.Context, p *pass, h *history, err error) string {
	switch {
	case errors.Is(err, errOutdated):
		h.again(r.now())
		return passOutdated
	case errors.Is(err, errOverdue):
		h.again(r.now())
		return passAgain
	case errors.Is(err, errExpired):
		h.end(false, r.now())
		return passAgain
	case err != nil:
		h.end(false, r.now())
		if ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Not all objects could be looked at", "ring", p.ring.Name)
			r.findings.change(p.ring.Name, func(f *finding) { f.balanced = unbalanced(err) })
		}
		return passFailed
	case p.written+p.left > 0:
		h.end(false, r.now())
		return passAgain
	case p.extent == light:
		h.end(true, r.now())
		return passLight
	default:
		h.end(true, r.now())
		return passDone
	}
}

// kick requests a whole pass of a ring: some of its objects may not be with their shards.
func (r *Passes) kick(ring string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kicked[ring] = true
}

// unkick reports whether a pass was requested, and clears the request.
func (r *Passes) unkick(ring string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer delete(r.kicked, ring)
	return r.kicked[ring]
}

// historyOf returns the history of a ring, or a new one if the ring was recreated under the same name.
func (r *Passes) historyOf(of *v1alpha1.ClusterRing) *history {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.of[of.Name]
	if h == nil || h.ring != of.UID {
		h = &history{ring: of.UID, schedule: schedule{tempo: r.tempo}, moves: newMoves()}
		r.of[of.Name] = h
		r.metrics.begin(of.Name)
	}
	h.isKicked = r.kicked[of.Name]
	return h
}

func (r *Passes) forget(ring string) {
	r.findings.forget(ring)
	r.metrics.end(ring)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, ring)
	delete(r.kicked, ring)
}

// selectorOf returns the selector of a ring's namespaces.
func selectorOf(spec *v1alpha1.ClusterRingSpec) (labels.Selector, error) {
	if spec.NamespaceSelector == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(spec.NamespaceSelector.LabelSelector())
}
