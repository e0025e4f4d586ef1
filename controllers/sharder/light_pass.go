package sharder

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// passScope is how much of a ring a pass reads.
type passScope string

const (
	// fullPass reads all objects.
	fullPass passScope = "whole"
	// lightPass reads only what the API server can select by labels, and writes nothing. When it finds something to do, or cannot decide, the
	// same pass becomes a whole one. It finds, as a whole pass does at the same time,
	//   - objects that no shard has: that admission has missed, or that their shard has released;
	//   - objects of shards that do not take part;
	//   - objects that a shard is asked to release, by any client;
	//   - that so many objects were created or deleted that the counts of the status are no longer accurate.
	//
	// It does not find objects that are with a shard that takes part, but is not the right one. The next whole pass finds them, after
	// fullPassInterval:
	//   - an object that a user has assigned to another shard;
	//   - an object whose annotation breakwater.dev/sharding-key has changed since;
	//   - a label that a user has put on an object of a namespace which is not of the ring;
	//   - a controlled object that is controlled by another object since, or by none;
	//   - objects controlled by an object that has moved, when no pass saw the move because a user requested it.
	//
	// Exclusive ownership does not depend on this: only the shard that the label names works on each of these objects, until a whole pass
	// makes it release the object.
	lightPass passScope = "light"
)

// maxSelector bounds a selector in a URL, in bytes: a proxy in front of an API server may accept no more than 8 KiB.
const maxSelector = 4096

// misplacedSelectors returns label selectors for the objects of a ring that cannot be with their shards: those that none of its shards has, and those
// that are being moved. It returns none when a selector would be too long.
func misplacedSelectors(name string, shards []string) []string {
	unassigned := v1alpha1.LabelShard(name) + " notin (" + strings.Join(shards, ",") + ")"
	if len(url.QueryEscape(unassigned)) > maxSelector {
		return nil
	}
	return []string{unassigned, v1alpha1.LabelDrain(name)}
}

// objectCounts is the number of objects at a whole pass.
type objectCounts struct {
	// listed is the number of all objects of the ring's resources, members of those that belong to the ring.
	listed, members int64
}

// isStale reports whether more than one in 20 of the ring's objects were created or deleted, if all those objects are the ring's.
func (c objectCounts) isStale(listed int64) bool {
	return 20*max(listed-c.listed, c.listed-listed) > c.members
}

// errMisplaced means that a light pass has found something to do.
var errMisplaced = errors.New("an object is not with its shard")

// isUpToDate makes a light pass. It reports whether there is nothing to do, as far as a light pass can determine. Errors other than the end
// of the pass only cause a whole pass, which reports them.
func (p *pass) isUpToDate(ctx context.Context) (bool, error) {
	err := p.runLight(ctx)
	switch {
	case endsPass(ctx, err):
		return false, err
	case err != nil:
		log.FromContext(ctx).V(1).Info("Falling back to full pass", "ring", p.planner.ring.Name, "reason", err.Error())
	}
	return err == nil, nil
}

func (p *pass) runLight(ctx context.Context) error {
	listed := int64(0)
	for _, main := range p.layout.mains {
		n, err := p.reader.countObjects(ctx, main)
		if err != nil {
			return err
		}
		listed += n
	}
	if p.lastFull.isStale(listed) {
		return errors.New("too many objects were created or deleted since the last full pass")
	}
	for _, selector := range misplacedSelectors(p.planner.ring.Name, p.planner.shards.Shards()) {
		for _, main := range p.layout.mains {
			err := p.reader.forEachPage(ctx, main, selector, func(page []object) error {
				plans, err := p.assigner.planPage(ctx, main, page, ring.Load{})
				return misplacedError(plans, err)
			})
			if err != nil {
				return err
			}
		}
		for _, r := range p.layout.controlled {
			err := p.reader.forEachPage(ctx, r, selector, func(page []object) error {
				plans, err := p.dependents.planPage(ctx, r, page)
				return misplacedError(plans, err)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func misplacedError(plans []*plan, err error) error {
	if err == nil && slices.ContainsFunc(plans, func(x *plan) bool { return x.action != ring.Keep }) {
		return errMisplaced
	}
	return err
}
