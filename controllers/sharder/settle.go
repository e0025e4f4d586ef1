package sharder

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/internal/ring"
)

// attempts is how often an object is tried that somebody else writes meanwhile. The next pass finds it if that was not enough.
const attempts = 4

var errContended = errors.New("others write it all the time")

// settleAll does the steps of plans, and takes in what has become of them. An error is of an apiserver that cannot be worked with now.
func (p *pass) settleAll(ctx context.Context, plans []*plan) error {
	err := each(ctx, p.tempo.writers, plans, p.settle)
	for _, x := range plans {
		p.account(x)
	}
	return err
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
		now, err := p.objects.label(ctx, x.of, x.object, x.labels(p.ring.Name))
		if err == nil {
			x.object, x.outcome = now, done
			return nil
		}
		if apierrors.IsConflict(err) {
			p.metrics.conflicts.WithLabelValues(p.ring.Name).Inc()
			now, err = p.objects.get(ctx, x.of, x.object.Namespace, x.object.Name)
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

// isFree makes certain that no shard works on an object that is about to be taken from a shard without a drain. Objects that another one
// controls need none of it: their shard has let go of that one.
func (p *pass) isFree(ctx context.Context, x *plan) (bool, error) {
	shard := x.had.Shard
	if shard == "" || len(x.of.mains) > 0 || x.action != ring.Assign && x.action != ring.Clear {
		return true, nil
	}
	return p.graves.isGone(ctx, p, shard)
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
