package sharder

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// maxAttempts is how often the writer tries to write an object that another client writes meanwhile. After that, the next pass retries it.
const maxAttempts = 4

var errContended = errors.New("other clients change the object continuously")

// writer executes plans: it changes the labels of objects by compare-and-swap, several at once, and makes sure that no object is taken from
// a shard that may work on it. It forgets the moves of the objects that it assigns.
type writer struct {
	objects objects
	planner planner
	tally   *tally
	moves   *moves
	metrics *Metrics
	// writers is the number of concurrent writes.
	writers    int
	deadShards deadShards
}

// executePlans executes plans, and records their results. An error means that the API server cannot be used.
//
// An object of a dead shard is taken from it in two rounds, since a shard can come back at any moment. In the first round, the shard is
// asked to release the object like any other shard. In the second round, its Lease is checked again. A shard that is dead even then and
// comes back later finds the object as one that it was asked to release, and does not start to work on it. So it does not matter how long
// after that check the object is taken.
func (w *writer) executePlans(ctx context.Context, plans []*plan) error {
	err := w.executeRound(ctx, plans)
	if requested := slices.DeleteFunc(slices.Clone(plans), func(x *plan) bool { return x.outcome != drainRequested }); err == nil && len(requested) > 0 {
		err = w.executeRound(ctx, requested)
	}
	for _, x := range plans {
		if x.outcome == done && x.isWrite() {
			delete(w.moves.inProgress, idOf(x.resource, x.object))
		}
		w.tally.recordOutcome(x)
	}
	return err
}

func (w *writer) executeRound(ctx context.Context, plans []*plan) error {
	w.deadShards.reset()
	return forEachParallel(ctx, w.writers, plans, w.execute)
}

// forEachParallel calls do for all items, with at most limit calls at a time.
func forEachParallel[T any](ctx context.Context, limit int, all []T, do func(context.Context, T) error) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(limit)
	for _, item := range all {
		if inner.Err() != nil {
			break
		}
		group.Go(func() error { return do(inner, item) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// execute executes a plan by compare-and-swap. After a conflict it decides again, based on the current object.
func (w *writer) execute(ctx context.Context, x *plan) error {
	for range maxAttempts {
		if !x.isWrite() && (x.action != ring.Drain || !x.mayDrain) {
			x.outcome = unchanged
			return nil
		}
		x.before = w.planner.placementOf(x.object)
		if isDead, err := w.isShardDead(ctx, x); !isDead {
			x.outcome, x.err = blocked, err
			return err
		}
		labels, outcome := x.labels(w.planner.ring.Name), done
		if x.takesOver() && !x.before.Draining {
			labels, outcome = step{action: ring.Drain}.labels(w.planner.ring.Name), drainRequested
		}
		now, err := w.objects.label(ctx, x.resource, x.object, labels)
		if err == nil {
			x.object, x.outcome = now, outcome
			return nil
		}
		if apierrors.IsConflict(err) {
			w.metrics.conflicts.WithLabelValues(w.planner.ring.Name).Inc()
			now, err = w.objects.get(ctx, x.resource, x.object.Namespace, x.object.Name)
			w.deadShards.reset() // the shard may have been asked to release it since
		}
		switch {
		case err == nil:
			x.object, x.step = now, x.decide(w.planner.placementOf(now))
		case apierrors.IsNotFound(err):
			x.outcome = notFound
			return nil
		default:
			x.outcome, x.err = failed, err
			return apiServerError(ctx, err)
		}
	}
	x.outcome, x.err = failed, errContended
	return nil
}

// takesOver reports whether the plan takes an object from a shard that does not respond. That is never so for controlled objects: their shard
// has released their controller.
func (x *plan) takesOver() bool {
	return x.before.Shard != "" && len(x.resource.mains) == 0 && (x.action == ring.Assign || x.action == ring.Clear)
}

// isShardDead makes certain that the shard is dead from which the plan takes an object.
func (w *writer) isShardDead(ctx context.Context, x *plan) (bool, error) {
	if !x.takesOver() {
		return true, nil
	}
	return w.deadShards.isDead(ctx, x.before.Shard)
}

// apiServerError returns err if it concerns the API server, and nil if it concerns only the object.
func apiServerError(ctx context.Context, err error) error {
	status := apierrors.APIStatus(nil)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.As(err, &status), apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err), apierrors.IsUnauthorized(err):
		return err
	default:
		return nil
	}
}
