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
func (m *mover) completeMoves(ctx context.Context, draining map[id]bool) error {
	var completed []*plan
	for _, main := range m.round.mains {
		for key := range m.moves.inProgress {
			if key.GroupResource == main.GroupResource && !draining[key] {
				o := &object{}
				o.Namespace, o.Name = key.namespace, key.name
				completed = append(completed, &plan{resource: main, object: o})
			}
		}
	}
	err := forEachParallel(ctx, m.clock.timing.writers, completed, func(ctx context.Context, x *plan) error {
		o, err := m.reader.objects.get(ctx, x.resource, x.object.Namespace, x.object.Name)
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
	filter := m.reader.newNamespaceFilter()
	for _, x := range completed {
		key := idOf(x.resource, x.object)
		former := m.moves.inProgress[key]
		result := m.planner.moveResult(x, former)
		if result == moveDone {
			m.dependents.moved[key] = movedObject{ownerPlacement{former.uid, m.planner.placementOf(x.object)}, former.from}
		}
		if result == moveUnassigned {
			isMember, err := filter.includes(ctx, x.object.Namespace, m.planner.placementOf(x.object) != ring.Placement{})
			if err != nil {
				return err
			}
			unassigned = append(unassigned, m.planner.planDestination(x, former, isMember, m.round.load))
		}
		if result != "" {
			m.tally.recordMove(result)
			delete(m.moves.inProgress, key)
		}
	}
	if err := m.writer.executePlans(ctx, unassigned); err != nil {
		return fmt.Errorf("assign objects that the webhook did not assign: %w", err)
	}
	return nil
}
