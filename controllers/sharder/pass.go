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

// These errors end a pass before all objects are with their shards.
var (
	// errOutdated means that the ring or its shards have changed since the pass began.
	errOutdated = errors.New("the ring or its shards have changed")
	// errOverdue means that the pass has moved objects for so long that all objects must be read again.
	errOverdue = errors.New("all objects must be read again")
	// errExpired means that a list expired before its last page was read.
	errExpired = errors.New("the list expired before its last page was read")
)

// pass reads all objects of a ring, and moves them to their shards. It uses the spec and the shards as they were at the beginning. First it
// handles objects that can be assigned at once, then controlled objects, then objects that a shard has to release first, which may take
// long. Its memory does not depend on the number of objects.
type pass struct {
	*PassReconciler
	ring   *v1alpha1.ClusterRing
	shards *ring.Shards
	// selector selects namespaces.
	selector labels.Selector
	layout   layout
	// scope is how much the pass reads. rested is the result of the last whole pass that found nothing to do.
	scope    passScope
	lastFull fullPassResult
	// moves are kept from one pass to the next.
	moves      *moves
	deadShards deadShards

	// load is the number of objects per shard, if it is bounded.
	load  ring.Load
	count count
	// listed is the number of objects of the ring's resources, whether or not they belong to the ring.
	listed int64
	// displaced are objects that are not where their name alone would place them. The objects that they control are not either.
	displaced *displacedSet
	// fullyRead has the resources of which the pass has read all objects.
	fullyRead map[*resource]bool
	// takenFrom is the number of objects that were taken from each dead shard.
	takenFrom map[string]int64
	// began is when the moves began. polled and followed are when moves were last checked, and how long that took. reported is when they
	// were last reported.
	began, reported          time.Time
	lastPoll, lastDependents lastRun
	// moved are objects that have moved, while the objects that they control have not.
	moved map[id]movedObject

	// written is the number of objects that were written, left the number that was left to another pass.
	written, deferred int
	failures          failures
}

// count is the number of objects by state; controlled objects are not counted.
type count struct {
	assigned, draining, unassigned int64
	byShard                        map[string]int64
	// moving is the number of objects that belong to another shard than the one that has them.
	moving int64
}

// failures are the failed writes; what and err are of the first one.
type failures struct {
	number  int
	subject string
	err     error
}

func (f *failures) add(subject string, err error) {
	if f.number++; f.number == 1 {
		f.subject, f.err = subject, err
	}
}

// lastRun is when something was last done, and how long it took.
type lastRun struct {
	at   time.Time
	took time.Duration
}

// run makes the pass. If one resource fails, it continues with the others.
func (p *pass) run(ctx context.Context) error {
	if p.scope == lightPass {
		if isUpToDate, err := p.isUpToDate(ctx); isUpToDate || err != nil {
			return err
		}
		p.scope = fullPass
	}
	p.moves.retain(p.layout.mains)
	err := p.countLoad(ctx)
	if err == nil {
		err = errors.Join(p.readObjects(ctx), p.assignDependents(ctx))
	}
	p.emitShardGone()
	if endsPass(ctx, err) {
		return err
	}
	p.reportCounts(err)
	p.moves.retain(p.readResources())
	if p.count.moving > 0 || len(p.moves.inProgress) > 0 {
		err = errors.Join(err, p.moveObjects(ctx))
	}
	return err
}

// readResources returns the resources of which the pass has read all objects.
func (p *pass) readResources() []*resource {
	return slices.DeleteFunc(slices.Clone(p.layout.mains), func(main *resource) bool { return !p.fullyRead[main] })
}

// readObjects reads the objects of the ring's resources, counts them, and assigns those that no shard has.
func (p *pass) readObjects(ctx context.Context) error {
	var failed []error
	load := ring.Load{Limit: p.load.Limit, Of: maps.Clone(p.load.Of)} // objects that should move have not moved yet
	for _, main := range p.layout.mains {
		err := p.assignObjects(ctx, main, load, func(_ context.Context, plans []*plan) error {
			p.listed += int64(len(plans))
			p.countPlacements(plans)
			return nil
		})
		if endsPass(ctx, err) {
			return err
		}
		p.fullyRead[main] = err == nil
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// assignObjects reads the objects of one of the ring's resources page by page, and writes those that can be written at once.
func (p *pass) assignObjects(ctx context.Context, main *resource, load ring.Load, handle func(context.Context, []*plan) error) error {
	return p.forEachPage(ctx, main, "", func(page []object) error {
		plans, err := p.planPage(ctx, main, page, load)
		if err != nil {
			return err
		}
		writes := slices.DeleteFunc(slices.Clone(plans), func(x *plan) bool { return !x.isWrite() })
		if err := p.executePlans(ctx, writes); err != nil {
			return fmt.Errorf("assign %s: %w", main, err)
		}
		return handle(ctx, plans)
	})
}

// planPage returns what has to be done to the objects of a page.
func (p *pass) planPage(ctx context.Context, main *resource, page []object, load ring.Load) ([]*plan, error) {
	all := make([]*plan, 0, len(page))
	filter := p.newNamespaceFilter()
	for i := range page {
		isMember, err := filter.includes(ctx, page[i].Namespace, p.placementOf(&page[i]) != ring.Placement{})
		if err != nil {
			return nil, err
		}
		all = append(all, p.planObject(main, &page[i], isMember, load))
	}
	return all, nil
}

// countLoad counts the objects per shard, if the ring bounds that number.
func (p *pass) countLoad(ctx context.Context) error {
	if p.ring.Spec.MaxLoadPercent == nil {
		return nil
	}
	objects, byShard := int64(0), map[string]int64{}
	for _, main := range p.layout.mains {
		err := p.forEachPage(ctx, main, "", func(page []object) error {
			filter := p.newNamespaceFilter()
			for i := range page {
				has := p.placementOf(&page[i])
				isMember, err := filter.includes(ctx, page[i].Namespace, has != ring.Placement{})
				if err != nil {
					return err
				}
				if isMember {
					objects++
				}
				if isMember && p.shards.IsAvailable(has.Shard) {
					byShard[has.Shard]++
				}
			}
			return nil
		})
		if endsPass(ctx, err) {
			return err // look finds out if a resource cannot be listed
		}
	}
	p.load = ring.Load{Of: byShard, Limit: ring.Limit(objects, len(p.shards.Shards()), p.ring.Spec.MaxLoadPercent)}
	return nil
}

// forEachPage reads the objects of a resource, a page at a time.
func (p *pass) forEachPage(ctx context.Context, res *resource, selector string, do func([]object) error) error {
	options := metav1.ListOptions{Limit: p.timing.page, LabelSelector: selector}
	for {
		if err := p.checkOutdated(ctx); err != nil {
			return err
		}
		list, err := p.objects.list(ctx, res, options)
		if options.Continue != "" && apierrors.IsResourceExpired(err) {
			// Changes since the list began do not matter, so the list can continue where it is.
			if options.Continue = continueToken(err); options.Continue == "" {
				return errExpired
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", res, err)
		}
		if err := do(list.Items); err != nil {
			return err
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil
		}
	}
}

// continueToken returns the token by which the API server continues an expired list with the current objects; empty if it does not offer one.
func continueToken(err error) string {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

// checkOutdated ends a pass whose ring or shards have changed.
func (p *pass) checkOutdated(ctx context.Context) error {
	now, err := p.getRing(ctx, p.ring.Name)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case apierrors.IsNotFound(err):
		return errOutdated
	case err != nil:
		return fmt.Errorf("get the ClusterRing: %w", err)
	case now.UID != p.ring.UID, now.Generation != p.ring.Generation, p.registry.Shards(now) != p.shards:
		return errOutdated
	default:
		return nil
	}
}

// endsPass reports whether an error ends the whole pass, and not only the work on one resource.
func endsPass(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, errOutdated) || errors.Is(err, errOverdue) || errors.Is(err, errExpired)
}
