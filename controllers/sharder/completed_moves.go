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

// movedObject is an object that has moved, and its former shard.
type movedObject struct {
	ownerPlacement
	from string
}

// completeMoves completes the moves of objects that are no longer draining. It assigns those that the webhook has not assigned.
func (p *pass) completeMoves(ctx context.Context, draining map[id]bool) error {
	var completed []*plan
	for _, main := range p.readResources() {
		for key := range p.moves.inProgress {
			if key.GroupResource == main.GroupResource && !draining[key] {
				o := &object{}
				o.Namespace, o.Name = key.namespace, key.name
				completed = append(completed, &plan{resource: main, object: o})
			}
		}
	}
	err := forEachParallel(ctx, p.timing.writers, completed, func(ctx context.Context, x *plan) error {
		o, err := p.objects.get(ctx, x.resource, x.object.Namespace, x.object.Name)
		switch {
		case err == nil:
			x.object = o
		case apierrors.IsNotFound(err):
			x.outcome = notFound
		default:
			return fmt.Errorf("get %s: %w", idOf(x.resource, x.object), err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var unassigned []*plan
	filter := p.newNamespaceFilter()
	for _, x := range completed {
		result := p.moveResult(x)
		if result == moveUnassigned {
			isMember, err := filter.includes(ctx, x.object.Namespace, p.placementOf(x.object) != ring.Placement{})
			if err != nil {
				return err
			}
			unassigned = append(unassigned, p.planDestination(x, isMember))
		}
		if result != "" {
			p.written++ // by its shard
			p.metrics.moves.WithLabelValues(p.ring.Name, result).Inc()
			delete(p.moves.inProgress, idOf(x.resource, x.object))
		}
	}
	if err := p.executePlans(ctx, unassigned); err != nil {
		return fmt.Errorf("assign objects that the webhook did not assign: %w", err)
	}
	return nil
}

// planDestination plans an object that its shard has released and that no shard has: it goes to the destination of its move.
func (p *pass) planDestination(x *plan, isMember bool) *plan {
	former := p.moves.inProgress[idOf(x.resource, x.object)]
	if isMember && p.shards.IsAvailable(former.to) {
		decide := func(has ring.Placement) step { return step{action: p.shards.Decide(has, former.to), shard: former.to} }
		return &plan{resource: x.resource, object: x.object, isMember: true, decide: decide, step: decide(p.placementOf(x.object))}
	}
	if p.load.Limit > 0 {
		p.load.Of[former.from]-- // where it was when objects were counted
	}
	return p.planObject(x.resource, x.object, isMember, p.load)
}

// moveResult returns the result of a move; empty if the object is still draining.
func (p *pass) moveResult(x *plan) string {
	key := idOf(x.resource, x.object)
	former, has := p.moves.inProgress[key], p.placementOf(x.object)
	switch {
	case x.outcome == notFound || x.object.UID != former.uid:
		return moveDeleted
	case has == ring.Placement{Shard: former.from, Draining: true}:
		return ""
	case has.Shard == former.from:
		return moveStayed
	case p.shards.IsAvailable(has.Shard):
		p.moved[key] = movedObject{ownerPlacement{former.uid, has}, former.from}
		return moveDone
	default:
		return moveUnassigned
	}
}
