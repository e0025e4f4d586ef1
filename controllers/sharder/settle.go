package sharder

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// attempts is how often an object is tried that somebody else writes meanwhile. The next pass finds it if that was not enough.
const attempts = 4

var errContended = errors.New("others write it all the time")

// settleAll does the steps of plans, and takes in what has become of them. An error is of an apiserver that cannot be worked with now.
//
// An object of a shard that is gone is taken from it in two rounds, since a shard can come back at any moment. In the first it is asked
// for like any other. In the second its shard is looked for once more: one that is not there even now finds the object, when it
// comes back, as one that it was asked for, and does not begin with it. So it does not matter how long after that it is taken.
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

// each does something for all, so many at once.
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

// settle does the step of a plan by compare-and-swap. When somebody else has written the object it decides anew, of what it is now.
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
			p.graves.forget() // it may have been asked for since
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

// takes tells whether an object is taken from a shard that does not answer. Objects that another one controls are not: their shard has
// let go of that one.
func (x *plan) takes() bool {
	return x.had.Shard != "" && len(x.of.mains) == 0 && (x.action == ring.Assign || x.action == ring.Clear)
}

// isFree makes certain that the shard is gone that an object is about to be taken from.
func (p *pass) isFree(ctx context.Context, x *plan) (bool, error) {
	if !x.takes() {
		return true, nil
	}
	return p.graves.isGone(ctx, p, x.had.Shard)
}

// outage tells whether an error is of the apiserver, and not of the object alone.
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
