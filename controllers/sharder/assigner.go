package sharder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// assigner assigns the objects of the ring's own resources that can be assigned at once: those that no working shard has.
type assigner struct {
	reader  *reader
	planner planner
	writer  *writer
	mains   []*resource
}

// countLoad counts the objects per shard, if the ring bounds that number.
func (a *assigner) countLoad(ctx context.Context) (ring.Load, error) {
	maxPercent := a.planner.ring.Spec.MaxLoadPercent
	if maxPercent == nil {
		return ring.Load{}, nil
	}
	objects, byShard := int64(0), map[string]int64{}
	for _, main := range a.mains {
		err := a.reader.forEachPage(ctx, main, "", func(page []object) error {
			filter := a.reader.newNamespaceFilter()
			for i := range page {
				has := a.planner.placementOf(&page[i])
				isMember, err := filter.includes(ctx, page[i].Namespace, has != ring.Placement{})
				if err != nil {
					return err
				}
				if isMember {
					objects++
				}
				if isMember && a.planner.shards.IsAvailable(has.Shard) {
					byShard[has.Shard]++
				}
			}
			return nil
		})
		if endsPass(ctx, err) {
			return ring.Load{}, err // assignAll finds out if a resource cannot be listed
		}
	}
	return ring.Load{Of: byShard, Limit: ring.Limit(objects, len(a.planner.shards.Shards()), maxPercent)}, nil
}

// assignAll reads the objects of the ring's resources, assigns those that no shard has, and calls handle for each page of plans. If one resource
// fails, it continues with the others. It returns the resources of which it has read all objects, also with an error. It does not change load.
func (a *assigner) assignAll(ctx context.Context, load ring.Load, handle func([]*plan)) ([]*resource, error) {
	var read []*resource
	var failed []error
	load.Of = maps.Clone(load.Of) // objects that should move have not moved yet
	for _, main := range a.mains {
		err := a.assign(ctx, main, load, func(_ context.Context, plans []*plan) error {
			handle(plans)
			return nil
		})
		if endsPass(ctx, err) {
			return read, err
		}
		if err == nil {
			read = append(read, main)
		}
		failed = append(failed, err)
	}
	return read, errors.Join(failed...)
}

// assign reads the objects of one of the ring's resources page by page, and writes those that can be written at once.
func (a *assigner) assign(ctx context.Context, main *resource, load ring.Load, handle func(context.Context, []*plan) error) error {
	return a.reader.forEachPage(ctx, main, "", func(page []object) error {
		plans, err := a.planPage(ctx, main, page, load)
		if err != nil {
			return err
		}
		writes := slices.DeleteFunc(slices.Clone(plans), func(x *plan) bool { return !x.isWrite() })
		if err := a.writer.executePlans(ctx, writes); err != nil {
			return fmt.Errorf("assign %s: %w", main, err)
		}
		return handle(ctx, plans)
	})
}

// planPage returns what has to be done to the objects of a page.
func (a *assigner) planPage(ctx context.Context, main *resource, page []object, load ring.Load) ([]*plan, error) {
	all := make([]*plan, 0, len(page))
	filter := a.reader.newNamespaceFilter()
	for i := range page {
		isMember, err := filter.includes(ctx, page[i].Namespace, a.planner.placementOf(&page[i]) != ring.Placement{})
		if err != nil {
			return nil, err
		}
		all = append(all, a.planner.planObject(main, &page[i], isMember, load))
	}
	return all, nil
}
