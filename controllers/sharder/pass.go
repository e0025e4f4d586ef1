package sharder

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// These errors end a pass before all objects are with their shards.
var (
	// errOutdated means that the ring or its shards have changed since the pass began.
	errOutdated = errors.New("the ring or its shards have changed")
	// errOverdue means that the pass has moved objects for so long that all objects must be read again.
	errOverdue = errors.New("all objects must be read again")
	// errExpired means that a list expired before its last page was read.
	errExpired = errors.New("the list expired before its last page was read")
)

// pass reads all objects of a ring, and moves them to their shards. It uses the spec and the shards as they were at the beginning. First it
// handles objects that can be assigned at once, then controlled objects, then objects that a shard has to release first, which may take
// long. Its memory does not depend on the number of objects.
//
// Its parts are of this one pass. Only moves are kept from one pass to the next.
type pass struct {
	layout layout
	// scope is how much the pass reads. lastFull is the result of the last full pass that found nothing to do.
	scope    passScope
	lastFull fullPassResult
	moves    *moves

	reader     *reader
	planner    planner
	writer     *writer
	assigner   *assigner
	dependents *dependents
	mover      *mover
	tally      *tally
	reporter   *reporter
}

// newPass returns a pass of a ring with its shards. selector selects its namespaces, and of has its resources.
func (r *PassReconciler) newPass(
	clusterRing *v1alpha1.ClusterRing, shards *ring.Shards, selector labels.Selector, of layout, scope passScope, h *history,
) *pass {
	p := &pass{layout: of, scope: scope, lastFull: h.lastFull, moves: h.moves, planner: planner{clusterRing, shards}}
	p.tally = newTally(p.planner, r.metrics)
	p.reporter = &reporter{tally: p.tally, ring: clusterRing, shards: shards, results: r.results, metrics: r.metrics, events: r.events, now: r.clock.now}
	p.reader = &reader{
		objects: r.objects, namespaces: r.namespaces, registry: r.registry, getRing: r.getRing, timing: r.clock.timing,
		ring: clusterRing, shards: shards, selector: selector,
	}
	p.writer = &writer{
		objects: r.objects, planner: p.planner, tally: p.tally, moves: p.moves, metrics: r.metrics, writers: r.clock.timing.writers,
		deadShards: deadShards{registry: r.registry, ring: clusterRing},
	}
	p.assigner = &assigner{reader: p.reader, planner: p.planner, writer: p.writer, mains: of.mains}
	p.dependents = &dependents{
		reader: p.reader, planner: p.planner, writer: p.writer, controlled: of.controlled, now: r.clock.now,
		displaced: newDisplacedSet(), moved: map[id]movedObject{},
	}
	p.mover = &mover{
		reader: p.reader, planner: p.planner, assigner: p.assigner, writer: p.writer, dependents: p.dependents, tally: p.tally, reporter: p.reporter,
		revoker: &revoker{
			reader: p.reader, registry: r.registry, ring: clusterRing, moves: p.moves, failures: &p.tally.failures,
			metrics: r.metrics, events: r.events, now: r.clock.now,
		},
		clock: r.clock, moves: p.moves,
	}
	return p
}

// run makes the pass. If one resource fails, it continues with the others.
func (p *pass) run(ctx context.Context) error {
	if p.scope == lightPass {
		if isUpToDate, err := p.isUpToDate(ctx); isUpToDate || err != nil {
			return err
		}
		p.scope = fullPass
	}
	p.moves.retain(p.layout.mains)
	load, read, err := p.assignObjects(ctx)
	p.reporter.emitShardGone()
	if endsPass(ctx, err) {
		return err
	}
	p.reporter.reportCounts(err)
	p.moves.retain(read)
	if p.tally.count.moving > 0 || len(p.moves.inProgress) > 0 {
		err = errors.Join(err, p.mover.moveObjects(ctx, read, load))
	}
	return err
}

// assignObjects reads and counts all objects, and assigns those that can be assigned at once. It returns the load of the shards before that, and
// the resources of which it has read all objects, also with an error.
func (p *pass) assignObjects(ctx context.Context) (ring.Load, []*resource, error) {
	load, err := p.assigner.countLoad(ctx)
	if err != nil {
		return ring.Load{}, nil, err
	}
	read, err := p.assigner.assignAll(ctx, load, func(plans []*plan) {
		p.tally.countPlacements(plans)
		p.dependents.recordOwners(plans)
	})
	return load, read, errors.Join(err, p.dependents.assignAll(ctx, read))
}

// endsPass reports whether an error ends the whole pass, and not only the work on one resource.
func endsPass(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, errOutdated) || errors.Is(err, errOverdue) || errors.Is(err, errExpired)
}
