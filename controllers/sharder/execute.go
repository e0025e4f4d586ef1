package sharder

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// maxAttempts is how often settle tries an object that another client writes meanwhile. After that, the next pass retries it.
const maxAttempts = 4

var errContended = errors.New("other clients change the object continuously")

// executePlans executes plans, and records their results. An error means that the API server cannot be used.
//
// An object of a dead shard is taken from it in two rounds, since a shard can come back at any moment. In the first round, the shard is
// asked to release the object like any other shard. In the second round, its Lease is checked again. A shard that is dead even then and
// comes back later finds the object as one that it was asked to release, and does not start to work on it. So it does not matter how long
// after that check the object is taken.
func (p *pass) executePlans(ctx context.Context, plans []*plan) error {
	err := p.executeRound(ctx, plans)
	if requested := slices.DeleteFunc(slices.Clone(plans), func(x *plan) bool { return x.outcome != drainRequested }); err == nil && len(requested) > 0 {
		err = p.executeRound(ctx, requested)
	}
	for _, x := range plans {
		p.recordOutcome(x)
	}
	return err
}

func (p *pass) executeRound(ctx context.Context, plans []*plan) error {
	p.deadShards.reset()
	return forEachParallel(ctx, p.timing.writers, plans, p.execute)
}

// forEachParallel calls do for all items, with at most atOnce calls at a time.
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
func (p *pass) execute(ctx context.Context, x *plan) error {
	for range maxAttempts {
		if !x.isWrite() && (x.action != ring.Drain || !x.mayDrain) {
			x.outcome = unchanged
			return nil
		}
		x.before = p.placementOf(x.object)
		if isDead, err := p.isShardDead(ctx, x); !isDead {
			x.outcome, x.err = blocked, err
			return err
		}
		labels, outcome := x.labels(p.ring.Name), done
		if x.takesOver() && !x.before.Draining {
			labels, outcome = step{action: ring.Drain}.labels(p.ring.Name), drainRequested
		}
		now, err := p.objects.label(ctx, x.resource, x.object, labels)
		if err == nil {
			x.object, x.outcome = now, outcome
			return nil
		}
		if apierrors.IsConflict(err) {
			p.metrics.conflicts.WithLabelValues(p.ring.Name).Inc()
			now, err = p.objects.get(ctx, x.resource, x.object.Namespace, x.object.Name)
			p.deadShards.reset() // the shard may have been asked to release it since
		}
		switch {
		case err == nil:
			x.object, x.step = now, x.decide(p.placementOf(now))
		case apierrors.IsNotFound(err):
			x.outcome = notFound
			return nil
		default:
			x.outcome, x.err = failed, err
			return p.apiServerError(ctx, err)
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
func (p *pass) isShardDead(ctx context.Context, x *plan) (bool, error) {
	if !x.takesOver() {
		return true, nil
	}
	return p.deadShards.isDead(ctx, p, x.before.Shard)
}

// apiServerError returns err if it concerns the API server, and nil if it concerns only the object.
func (p *pass) apiServerError(ctx context.Context, err error) error {
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
