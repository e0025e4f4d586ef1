package sharder

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// What has become of moves, as a label of a metric.
const (
	// moveDone is with another shard.
	moveDone = "moved"
	// moveStayed is with the shard that it was with: it is to stay there after all, or somebody else has taken the label off.
	moveStayed = "stayed"
	// moveUnassigned is with none: it has left the ring, or the webhook was not there to assign it.
	moveUnassigned = "unassigned"
	// moveDeleted does not exist any more.
	moveDeleted = "deleted"
)

// landed is an object that has moved, and the shard that had it.
type landed struct {
	landing
	from string
}

// land sees to objects that are not on their way any more. One that the webhook has not assigned is assigned here.
func (p *pass) land(ctx context.Context, underway map[id]bool) error {
	var arrived []*plan
	for _, main := range p.within() {
		for of := range p.moves.onWay {
			if of.GroupResource == main.GroupResource && !underway[of] {
				o := &object{}
				o.Namespace, o.Name = of.namespace, of.name
				arrived = append(arrived, &plan{of: main, object: o})
			}
		}
	}
	err := each(ctx, p.tempo.writers, arrived, func(ctx context.Context, x *plan) error {
		o, err := p.objects.get(ctx, x.of, x.object.Namespace, x.object.Name)
		switch {
		case err == nil:
			x.object = o
		case apierrors.IsNotFound(err):
			x.outcome = gone
		default:
			return fmt.Errorf("get %s: %w", idOf(x.of, x.object), err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var lost []*plan
	around := p.territory()
	for _, x := range arrived {
		what := p.arrive(x)
		if what == moveUnassigned {
			isMember, err := around.has(ctx, x.object.Namespace, p.placementOf(x.object) != ring.Placement{})
			if err != nil {
				return err
			}
			lost = append(lost, p.resend(x, isMember))
		}
		if what != "" {
			p.written++ // by its shard
			p.metrics.moves.WithLabelValues(p.ring.Name, what).Inc()
			delete(p.moves.onWay, idOf(x.of, x.object))
		}
	}
	if err := p.settleAll(ctx, lost); err != nil {
		return fmt.Errorf("assign what the webhook has not: %w", err)
	}
	return nil
}

// resend is what has to be done to an object that a shard has let go of, and no other one has: it goes where it was to go.
func (p *pass) resend(x *plan, isMember bool) *plan {
	was := p.moves.onWay[idOf(x.of, x.object)]
	if isMember && p.shards.IsAvailable(was.to) {
		decide := func(has ring.Placement) step { return step{action: p.shards.Decide(has, was.to), shard: was.to} }
		return &plan{of: x.of, object: x.object, isMember: true, decide: decide, step: decide(p.placementOf(x.object))}
	}
	if p.load.Limit > 0 {
		p.load.Of[was.from]-- // where it was when objects were weighed
	}
	return p.plan(x.of, x.object, isMember, p.load)
}

// arrive tells what has become of an object that was on its way; empty is that it still is.
func (p *pass) arrive(x *plan) string {
	of := idOf(x.of, x.object)
	was, has := p.moves.onWay[of], p.placementOf(x.object)
	switch {
	case x.outcome == gone || x.object.UID != was.uid:
		return moveDeleted
	case has == ring.Placement{Shard: was.from, Draining: true}:
		return ""
	case has.Shard == was.from:
		return moveStayed
	case p.shards.IsAvailable(has.Shard):
		p.landed[of] = landed{landing{was.uid, has}, was.from}
		return moveDone
	default:
		return moveUnassigned
	}
}
