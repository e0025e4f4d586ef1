package sharder

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// attempts is how often settle tries an object that another client writes meanwhile. After that, the next pass retries it.
const attempts = 4

var errContended = errors.New("others write it all the time")

// settleAll executes plans, and records their results. An error means that the API server cannot be used.
//
// An object of a dead shard is taken from it in two rounds, since a shard can come back at any moment. In the first round, the shard is
// asked to release the object like any other shard. In the second round, its Lease is checked again. A shard that is dead even then and
// comes back later finds the object as one that it was asked to release, and does not start to work on it. So it does not matter how long
// after that check the object is taken.
func (p *pass) settleAll(ctx context.Context, plans []*plan) error {
	err := p.round(ctx, plans)
	if asked := slices.DeleteFunc(slices.Clone(plans), func(x *plan) bool { return x.outcome != asked }); err == nil && len(asked) > 0 {
		err = p.round(ctx, asked)
	}
	for _, x := range plans {
		p.account(x)
	}
	return err
}

func (p *pass) round(ctx context.Context, plans []*plan) error {
	p.graves.forget()
	return each(ctx, p.tempo.writers, plans, p.settle)
}

// each calls do for all items, with at most atOnce calls at a time.
func each[T any](ctx context.Context, atOnce int, all []T, do func(context.Context, T) error) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, one := range all {
		if inner.Err() != nil {
			break
		}
		group.Go(func() error { return do(inner, one) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// settle executes a plan by compare-and-swap. After a conflict it decides again, based on the current object.
func (p *pass) settle(ctx context.Context, x *plan) error {
	for range attempts {
		if !x.isWrite() && (x.action != ring.Drain || !x.mayDrain) {
			x.outcome = kept
			return nil
		}
		x.had = p.placementOf(x.object)
		if certain, err := p.isFree(ctx, x); !certain {
			x.outcome, x.err = held, err
			return err
		}
		labels, outcome := x.labels(p.ring.Name), done
		if x.takes() && !x.had.Draining {
			labels, outcome = step{action: ring.Drain}.labels(p.ring.Name), asked
		}
		now, err := p.objects.label(ctx, x.of, x.object, labels)
		if err == nil {
			x.object, x.outcome = now, outcome
			return nil
		}
		if apierrors.IsConflict(err) {
			p.metrics.conflicts.WithLabelValues(p.ring.Name).Inc()
			now, err = p.objects.get(ctx, x.of, x.object.Namespace, x.object.Name)
			p.graves.forget() // the shard may have been asked to release it since
		}
		switch {
		case err == nil:
			x.object, x.step = now, x.decide(p.placementOf(now))
		case apierrors.IsNotFound(err):
			x.outcome = gone
			return nil
		default:
			x.outcome, x.err = failed, err
			return p.outage(ctx, err)
		}
	}
	x.outcome, x.err = failed, errContended
	return nil
}

// takes reports whether the plan takes an object from a shard that does not respond. That is never so for controlled objects: their shard
// has released their controller.
func (x *plan) takes() bool {
	return x.had.Shard != "" && len(x.of.mains) == 0 && (x.action == ring.Assign || x.action == ring.Clear)
}

// isFree makes certain that the shard is dead from which the plan takes an object.
func (p *pass) isFree(ctx context.Context, x *plan) (bool, error) {
	if !x.takes() {
		return true, nil
	}
	return p.graves.isGone(ctx, p, x.had.Shard)
}

// outage returns err if it concerns the API server, and nil if it concerns only the object.
func (p *pass) outage(ctx context.Context, err error) error {
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
