package sharder

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// These are the results of moves, as a label of a metric.
const (
	// moveDone is with another shard.
	moveDone = "moved"
	// moveStayed is with its former shard: it should stay there after all, or another client has removed the label.
	moveStayed = "stayed"
	// moveUnassigned is with no shard: it has left the ring, or the webhook was not available to assign it.
	moveUnassigned = "unassigned"
	// moveDeleted no longer exists.
	moveDeleted = "deleted"
)

// landed is an object that has moved, and its former shard.
type landed struct {
	landing
	from string
}

// land completes the moves of objects that are no longer draining. It assigns those that the webhook has not assigned.
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

// resend plans an object that its shard has released and that no shard has: it goes to the destination of its move.
func (p *pass) resend(x *plan, isMember bool) *plan {
	was := p.moves.onWay[idOf(x.of, x.object)]
	if isMember && p.shards.IsAvailable(was.to) {
		decide := func(has ring.Placement) step { return step{action: p.shards.Decide(has, was.to), shard: was.to} }
		return &plan{of: x.of, object: x.object, isMember: true, decide: decide, step: decide(p.placementOf(x.object))}
	}
	if p.load.Limit > 0 {
		p.load.Of[was.from]-- // where it was when objects were counted
	}
	return p.plan(x.of, x.object, isMember, p.load)
}

// arrive returns the result of a move; empty if the object is still draining.
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
