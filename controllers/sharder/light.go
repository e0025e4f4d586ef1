package sharder

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// extent is how much of a ring a pass looks at.
type extent string

const (
	// whole looks at all objects.
	whole extent = "whole"
	// light looks at what the apiserver can tell apart by labels, and writes nothing: when it finds that something is to be done, or cannot
	// tell, the same pass looks at all objects. It finds, as a whole look does at the same time,
	//   - objects that no shard has: that admission has missed, or whose shard has let go of them;
	//   - objects of shards that do not take part;
	//   - objects that a shard is asked to let go of, whoever asks;
	//   - that so many came or went that the counts of the status are not worth much any more.
	//
	// It does not find what is with a shard that takes part, only not with the right one. The next whole look finds that, after wholeEvery:
	//   - an object that a hand has given to another shard;
	//   - an object whose annotation breakwater.dev/sharding-key has changed since;
	//   - a label that a hand has put on an object of a namespace which is not of the ring;
	//   - a controlled object that is controlled by another one since, or by none;
	//   - what an object controls that has moved, when no look has seen it on its way: a hand had asked for it.
	//
	// That two shards never work on one object does not depend on it: one works on each of these, that which the label names, until a whole
	// look has made it let go.
	light extent = "light"
)

// maxSelector is how long a selector may be in a URL, in bytes: what stands before an apiserver may take no more than 8 KiB of them.
const maxSelector = 4096

// selectors choose, by their labels, the objects of a ring that cannot be where they are to be: those that none of its shards has, and those
// on their way. There are none when that would be too long.
func selectors(of string, shards []string) []string {
	nowhere := v1alpha1.LabelShard(of) + " notin (" + strings.Join(shards, ",") + ")"
	if len(url.QueryEscape(nowhere)) > maxSelector {
		return nil
	}
	return []string{nowhere, v1alpha1.LabelDrain(of)}
}

// census is how many objects there were at a whole look.
type census struct {
	// listed are all objects of the ring's resources, and members those that belong to the ring.
	listed, members int64
}

// isStale tells whether more of the ring's objects have come or gone than one in 20, if all that came or went are the ring's.
func (c census) isStale(listed int64) bool {
	return 20*max(listed-c.listed, c.listed-listed) > c.members
}

// errMisplaced is of a light look that has found something to be done.
var errMisplaced = errors.New("an object is not where it is to be")

// isAtRest is a light look: it tells whether there is nothing to be done, as far as it can see. What keeps it from seeing is for the whole
// look to tell.
func (p *pass) isAtRest(ctx context.Context) (bool, error) {
	err := p.glance(ctx)
	switch {
	case isEnd(ctx, err):
		return false, err
	case err != nil:
		log.FromContext(ctx).V(1).Info("All objects are looked at", "ring", p.ring.Name, "reason", err.Error())
	}
	return err == nil, nil
}

func (p *pass) glance(ctx context.Context) error {
	listed := int64(0)
	for _, main := range p.layout.mains {
		n, err := p.number(ctx, main)
		if err != nil {
			return err
		}
		listed += n
	}
	if p.rested.isStale(listed) {
		return errors.New("objects have come or gone")
	}
	for _, selector := range selectors(p.ring.Name, p.shards.Shards()) {
		for _, main := range p.layout.mains {
			err := p.pages(ctx, main, selector, func(page []object) error {
				plans, err := p.plans(ctx, main, page, ring.Load{})
				return misplaced(plans, err)
			})
			if err != nil {
				return err
			}
		}
		for _, r := range p.layout.controlled {
			err := p.pages(ctx, r, selector, func(page []object) error {
				plans, err := p.followUps(ctx, r, page)
				return misplaced(plans, err)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func misplaced(plans []*plan, err error) error {
	if err == nil && slices.ContainsFunc(plans, func(x *plan) bool { return x.action != ring.Keep }) {
		return errMisplaced
	}
	return err
}

// number is how many objects of a resource there are, as the apiserver tells with the first one. It need not.
func (p *pass) number(ctx context.Context, of *resource) (int64, error) {
	list, err := p.objects.list(ctx, of, metav1.ListOptions{Limit: 1})
	switch {
	case err != nil:
		return 0, err
	case list.Continue == "":
		return int64(len(list.Items)), nil
	case list.RemainingItemCount == nil:
		return 0, errors.New("the apiserver does not tell how many objects there are")
	default:
		return int64(len(list.Items)) + *list.RemainingItemCount, nil
	}
}
