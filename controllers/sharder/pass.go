package sharder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// What ends a pass before all objects are where they are to be.
var (
	// errOutdated is of a pass whose ring, or whose shards, are not any more what it goes by.
	errOutdated = errors.New("the ring or its shards have changed")
	// errOverdue is of a pass that has moved objects for so long that all of them are to be looked at again.
	errOverdue = errors.New("it is time to look at all objects again")
	// errExpired is of a list that took too long to be read to its end.
	errExpired = errors.New("the list has expired while it was read")
)

// pass looks at all objects of a ring, by its spec and its shards as they were at the begin, and brings the objects where they are to
// be. First come those that can be given to a shard at once, and those that are controlled by others, then those that a shard has to let
// go of before, which may take long. What it remembers does not depend on how many objects there are.
type pass struct {
	*Passes
	ring   *v1alpha1.ClusterRing
	shards *ring.Shards
	// selector chooses namespaces.
	selector labels.Selector
	layout   layout
	// extent is how much the pass looks at, and rested what the last whole look has found that found nothing to be done.
	extent extent
	rested repose
	// moves are kept from one pass to the next.
	moves  *moves
	graves graves

	// load is how many objects shards have, if that has a bound.
	load  ring.Load
	count count
	// listed is how many objects of the ring's resources there are, whether or not they belong to the ring.
	listed int64
	// strays are objects that are not where their name alone would have them, so that those they control are not either.
	strays *strays
	// looked has the resources all of whose objects were looked at.
	looked map[*resource]bool
	// from is how many objects were taken from shards that are gone.
	from map[string]int64
	// began is when the moves began, polled and followed when, and for how long, was looked after them, and reported when it was told of.
	began, reported  time.Time
	polled, followed lap
	// landed are those that have moved, and what they control has not.
	landed map[id]landed

	// written is how many objects were written, and left how many were left to another pass.
	written, left int
	failures      failures
}

// count is how many objects are where; those that others control are not counted.
type count struct {
	assigned, draining, unassigned int64
	of                             map[string]int64
	// moving are those that are to be with another shard than they are.
	moving int64
}

// failures are what could not be written; the first one stands for all.
type failures struct {
	number int
	what   string
	err    error
}

func (f *failures) add(what string, err error) {
	if f.number++; f.number == 1 {
		f.what, f.err = what, err
	}
}

// lap is when something was done last, and how long it took.
type lap struct {
	at   time.Time
	took time.Duration
}

// run goes on with all else when something cannot be worked with.
func (p *pass) run(ctx context.Context) error {
	if p.extent == light {
		if isAtRest, err := p.isAtRest(ctx); isAtRest || err != nil {
			return err
		}
		p.extent = whole
	}
	p.moves.begin(p.layout.mains)
	err := p.weigh(ctx)
	if err == nil {
		err = errors.Join(p.look(ctx), p.follow(ctx))
	}
	p.tellOfTheDead()
	if isEnd(ctx, err) {
		return err
	}
	p.report(err)
	p.moves.begin(p.within())
	if p.count.moving > 0 || len(p.moves.onWay) > 0 {
		err = errors.Join(err, p.move(ctx))
	}
	return err
}

// within are the resources all of whose objects were looked at.
func (p *pass) within() []*resource {
	return slices.DeleteFunc(slices.Clone(p.layout.mains), func(main *resource) bool { return !p.looked[main] })
}

// look goes over the objects of the ring's resources, counts them, and assigns those that nobody works on.
func (p *pass) look(ctx context.Context) error {
	var failed []error
	load := ring.Load{Limit: p.load.Limit, Of: maps.Clone(p.load.Of)} // what is to move has not yet
	for _, main := range p.layout.mains {
		err := p.walk(ctx, main, load, func(_ context.Context, plans []*plan) error {
			p.listed += int64(len(plans))
			p.tally(plans)
			return nil
		})
		if isEnd(ctx, err) {
			return err
		}
		p.looked[main] = err == nil
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// walk goes over the objects of one of the ring's resources and does what can be done at once, a page at a time.
func (p *pass) walk(ctx context.Context, main *resource, load ring.Load, then func(context.Context, []*plan) error) error {
	return p.pages(ctx, main, "", func(page []object) error {
		plans, err := p.plans(ctx, main, page, load)
		if err != nil {
			return err
		}
		writes := slices.DeleteFunc(slices.Clone(plans), func(x *plan) bool { return !x.isWrite() })
		if err := p.settleAll(ctx, writes); err != nil {
			return fmt.Errorf("assign %s: %w", main, err)
		}
		return then(ctx, plans)
	})
}

// plans say what has to be done to the objects of a page.
func (p *pass) plans(ctx context.Context, main *resource, page []object, load ring.Load) ([]*plan, error) {
	all := make([]*plan, 0, len(page))
	land := p.territory()
	for i := range page {
		isMember, err := land.has(ctx, page[i].Namespace, p.placementOf(&page[i]) != ring.Placement{})
		if err != nil {
			return nil, err
		}
		all = append(all, p.plan(main, &page[i], isMember, load))
	}
	return all, nil
}

// weigh finds out how many objects shards have, where that has a bound.
func (p *pass) weigh(ctx context.Context) error {
	if p.ring.Spec.MaxLoadPercent == nil {
		return nil
	}
	objects, of := int64(0), map[string]int64{}
	for _, main := range p.layout.mains {
		err := p.pages(ctx, main, "", func(page []object) error {
			land := p.territory()
			for i := range page {
				has := p.placementOf(&page[i])
				isMember, err := land.has(ctx, page[i].Namespace, has != ring.Placement{})
				if err != nil {
					return err
				}
				if isMember {
					objects++
				}
				if isMember && p.shards.IsAvailable(has.Shard) {
					of[has.Shard]++
				}
			}
			return nil
		})
		if isEnd(ctx, err) {
			return err // what cannot be listed is found out when it is looked at
		}
	}
	p.load = ring.Load{Of: of, Limit: ring.Limit(objects, len(p.shards.Shards()), p.ring.Spec.MaxLoadPercent)}
	return nil
}

// pages reads the objects of a resource, a page at a time.
func (p *pass) pages(ctx context.Context, of *resource, selector string, do func([]object) error) error {
	options := metav1.ListOptions{Limit: p.tempo.page, LabelSelector: selector}
	for {
		if err := p.check(ctx); err != nil {
			return err
		}
		list, err := p.objects.list(ctx, of, options)
		if options.Continue != "" && apierrors.IsResourceExpired(err) {
			// What has come or changed since the list began does not matter, so it can go on where it is.
			if options.Continue = goOn(err); options.Continue == "" {
				return errExpired
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", of, err)
		}
		if err := do(list.Items); err != nil {
			return err
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil
		}
	}
}

// goOn is with what the apiserver goes on with a list that has expired, as the objects are by then; empty when it does not.
func goOn(err error) string {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

// check ends a pass that goes by what is not so any more.
func (p *pass) check(ctx context.Context) error {
	now, err := p.rings(ctx, p.ring.Name)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case apierrors.IsNotFound(err):
		return errOutdated
	case err != nil:
		return fmt.Errorf("get the ClusterRing: %w", err)
	case now.UID != p.ring.UID, now.Generation != p.ring.Generation, p.roll.Shards(now) != p.shards:
		return errOutdated
	default:
		return nil
	}
}

// isEnd tells whether an error ends the whole pass, and not only what it does with one resource.
func isEnd(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, errOutdated) || errors.Is(err, errOverdue) || errors.Is(err, errExpired)
}
