package sharder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// maxSelected is how many shards a selector names at most.
const maxSelected = 50

// dependents assigns controlled objects to the shards of their controllers. Before assignAll, recordOwners must have been called for all objects
// of the resources that control them.
type dependents struct {
	reader     *reader
	planner    planner
	writer     *writer
	controlled []*resource
	now        func() time.Time

	// displaced are objects that are not where their name alone would place them. The objects that they control are not either.
	displaced *displacedSet
	// moved are objects that have moved, while the objects that they control have not. lastMoved is when those last followed, and how long
	// that took.
	moved     map[id]movedObject
	lastMoved lastRun
}

// lastRun is when something was last done, and how long it took.
type lastRun struct {
	at   time.Time
	took time.Duration
}

const (
	// maxMoved is how many objects may have moved, and dependentsInterval how long to wait, before the objects that they control follow.
	maxMoved           = 2000
	dependentsInterval = 2 * time.Second
)

// recordOwners records which objects of one of the ring's resources are displaced.
func (d *dependents) recordOwners(plans []*plan) {
	for _, x := range plans {
		if x.outcome == notFound {
			continue
		}
		key := idOf(x.resource, x.object)
		if byName, _ := d.planner.owner(key); d.planner.placementOf(x.object).Shard != byName {
			d.displaced.add(key)
		}
	}
}

// assignAll assigns controlled objects to the shards of their controllers. read are the resources of which all objects have been read.
func (d *dependents) assignAll(ctx context.Context, read []*resource) error {
	var failed []error
	for _, r := range d.controlled {
		if slices.ContainsFunc(r.mains, func(main *resource) bool { return !slices.Contains(read, main) }) {
			continue // it is not known which of their objects are strays
		}
		err := d.reader.forEachPage(ctx, r, "", func(page []object) error {
			plans, err := d.planPage(ctx, r, page)
			if err != nil {
				return err
			}
			return d.execute(ctx, plans)
		})
		if endsPass(ctx, err) {
			return err
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// planPage plans those controlled objects of a page that may not be with their shard.
func (d *dependents) planPage(ctx context.Context, r *resource, page []object) ([]*plan, error) {
	dependents, err := d.filter(ctx, r, page, func(f *dependent) bool { return d.planner.mayBeMisplaced(f, d.displaced) })
	if err != nil {
		return nil, err
	}
	placements, err := d.locateOwners(ctx, dependents)
	if err != nil {
		return nil, err
	}
	return d.planner.planFollowingOwners(dependents, placements), nil
}

func (d *dependents) filter(ctx context.Context, r *resource, page []object, matches func(*dependent) bool) ([]*dependent, error) {
	var all []*dependent
	filter := d.reader.newNamespaceFilter()
	for i := range page {
		o := &page[i]
		f := &dependent{plan: &plan{resource: r, object: o, before: d.planner.placementOf(o)}}
		var err error
		if f.isMember, err = filter.includes(ctx, o.Namespace, f.before != ring.Placement{}); err != nil {
			return nil, err
		}
		if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
			f.main, f.owner = r.controller(o, owner)
			f.uid = owner.UID
		}
		if matches(f) {
			all = append(all, f)
		}
	}
	return all, nil
}

// controller returns the object that an owner reference names, if its resource is one whose objects control those of r.
func (r *resource) controller(o *object, owner *metav1.OwnerReference) (*resource, id) {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return nil, id{}
	}
	for _, main := range r.mains {
		if main.Group == version.Group && main.kind == owner.Kind {
			key := id{GroupResource: main.GroupResource, name: owner.Name}
			if main.namespaced {
				key.namespace = o.Namespace
			}
			return main, key
		}
	}
	return nil, id{}
}

// locateOwners reads the placements of the objects that control others. An object that does not exist has an empty placement.
func (d *dependents) locateOwners(ctx context.Context, all []*dependent) (map[id]*ownerPlacement, error) {
	placements := map[id]*ownerPlacement{}
	mains := map[id]*resource{}
	for _, f := range all {
		if f.main != nil {
			placements[f.owner], mains[f.owner] = &ownerPlacement{}, f.main
		}
	}
	err := forEachParallel(ctx, d.reader.timing.writers, slices.Collect(maps.Keys(placements)), func(ctx context.Context, key id) error {
		o, err := d.reader.objects.get(ctx, mains[key], key.namespace, key.name)
		if err == nil {
			*placements[key] = ownerPlacement{o.UID, d.planner.placementOf(o)}
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("get %s: %w", key, err)
		}
		return nil
	})
	return placements, err
}

func (d *dependents) execute(ctx context.Context, plans []*plan) error {
	if err := d.writer.executePlans(ctx, plans); err != nil {
		return fmt.Errorf("assign controlled objects: %w", err)
	}
	return nil
}

// isFollowDue reports whether the objects that moved objects control should follow now.
func (d *dependents) isFollowDue() bool {
	return len(d.moved) >= maxMoved || d.now().Sub(d.lastMoved.at) >= max(dependentsInterval, loadDivisor*d.lastMoved.took)
}

// followMoved assigns the objects that moved objects control to the new shards. The other objects of the former shards stay.
func (d *dependents) followMoved(ctx context.Context) error {
	began := d.now()
	if len(d.moved) == 0 {
		d.lastMoved.at = began
		return nil
	}
	placements, from := map[id]*ownerPlacement{}, map[string]bool{}
	mains := map[v1alpha1.GroupResource]bool{}
	for key, l := range d.moved {
		placements[key], from[l.from], mains[key.GroupResource] = &l.ownerPlacement, true, true
	}
	selector := v1alpha1.LabelShard(d.planner.ring.Name)
	if len(from) <= maxSelected {
		selector += " in (" + strings.Join(slices.Sorted(maps.Keys(from)), ",") + ")"
	}
	for _, r := range d.controlled {
		if !slices.ContainsFunc(r.mains, func(main *resource) bool { return mains[main.GroupResource] }) {
			continue
		}
		err := d.reader.forEachPage(ctx, r, selector, func(page []object) error {
			dependents, err := d.filter(ctx, r, page, func(f *dependent) bool { return placements[f.owner] != nil })
			if err != nil {
				return err
			}
			return d.execute(ctx, d.planner.planFollowingOwners(dependents, placements))
		})
		if err != nil {
			return err
		}
	}
	clear(d.moved)
	d.lastMoved = lastRun{d.now(), d.now().Sub(began)}
	return nil
}
