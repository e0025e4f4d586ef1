package sharder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// maxSelected is how many shards a selector names at most.
const maxSelected = 50

// dependent is an object that another object may control.
type dependent struct {
	*plan
	// main is the resource of the object that controls it, nil if no object of the ring does. owner identifies that object, and uid is its
	// UID.
	main  *resource
	owner id
	uid   types.UID
}

// ownerPlacement is the placement of an object that controls others.
type ownerPlacement struct {
	uid types.UID
	ring.Placement
}

// assignDependents assigns controlled objects to the shards of their controllers.
func (p *pass) assignDependents(ctx context.Context) error {
	var failed []error
	for _, r := range p.layout.controlled {
		if slices.ContainsFunc(r.mains, func(main *resource) bool { return !p.fullyRead[main] }) {
			continue // it is not known which of their objects are strays
		}
		err := p.forEachPage(ctx, r, "", func(page []object) error {
			plans, err := p.planDependents(ctx, r, page)
			if err != nil {
				return err
			}
			return p.executeDependentPlans(ctx, plans)
		})
		if endsPass(ctx, err) {
			return err
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// planDependents plans those controlled objects of a page that may not be with their shard.
func (p *pass) planDependents(ctx context.Context, r *resource, page []object) ([]*plan, error) {
	dependents, err := p.filterDependents(ctx, r, page, p.mayBeMisplaced)
	if err != nil {
		return nil, err
	}
	placements, err := p.locateOwners(ctx, dependents)
	if err != nil {
		return nil, err
	}
	return p.planFollowingOwners(dependents, placements), nil
}

// filterDependents returns the objects of a page for which holds is true.
func (p *pass) filterDependents(ctx context.Context, r *resource, page []object, matches func(*dependent) bool) ([]*dependent, error) {
	var all []*dependent
	filter := p.newNamespaceFilter()
	for i := range page {
		o := &page[i]
		f := &dependent{plan: &plan{resource: r, object: o, before: p.placementOf(o)}}
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

// mayBeMisplaced reports whether an object may not be with its shard, as far as can be determined without reading its controller. The controller
// is where its name would place it, unless it is a stray.
func (p *pass) mayBeMisplaced(f *dependent) bool {
	isUnassigned := f.before == ring.Placement{}
	switch {
	case f.main == nil:
		return f.resource.hasAllMains && !isUnassigned
	case !f.isMember:
		return !isUnassigned
	}
	byName, ok := p.shards.Owner(p.nameKey(f.main, f.owner.namespace, f.owner.name))
	return ok && (f.before != ring.Placement{Shard: byName} || p.displaced.mayContain(f.owner))
}

// locateOwners reads the placements of the objects that control others. An object that does not exist has an empty landing.
func (p *pass) locateOwners(ctx context.Context, all []*dependent) (map[id]*ownerPlacement, error) {
	placements := map[id]*ownerPlacement{}
	mains := map[id]*resource{}
	for _, f := range all {
		if f.main != nil {
			placements[f.owner], mains[f.owner] = &ownerPlacement{}, f.main
		}
	}
	err := forEachParallel(ctx, p.timing.writers, slices.Collect(maps.Keys(placements)), func(ctx context.Context, key id) error {
		o, err := p.objects.get(ctx, mains[key], key.namespace, key.name)
		if err == nil {
			*placements[key] = ownerPlacement{o.UID, p.placementOf(o)}
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("get %s: %w", key, err)
		}
		return nil
	})
	return placements, err
}

// planFollowingOwners plans objects to go to the shards of their controllers. If a controller no longer exists, or was recreated under the same name,
// its objects stay where they are: the garbage collector handles them.
func (p *pass) planFollowingOwners(all []*dependent, placements map[id]*ownerPlacement) []*plan {
	plans := make([]*plan, 0, len(all))
	for _, f := range all {
		to := placements[f.owner]
		if f.main != nil && (to == nil || to.uid != f.uid) {
			continue
		}
		f.decide = func(has ring.Placement) step {
			switch {
			case f.main == nil:
				return step{action: p.shards.Leave(has, true)}
			case !f.isMember && (!f.main.namespaced || to.Shard == ""):
				return step{action: p.shards.Leave(has, true)} // the controller has left the ring, or was never in that namespace
			default:
				return step{action: p.shards.Follow(has, to.Placement), shard: to.Shard}
			}
		}
		f.step = f.decide(f.before)
		plans = append(plans, f.plan)
	}
	return plans
}

func (p *pass) executeDependentPlans(ctx context.Context, plans []*plan) error {
	if err := p.executePlans(ctx, plans); err != nil {
		return fmt.Errorf("assign controlled objects: %w", err)
	}
	return nil
}

// assignMovedDependents assigns the objects that moved objects control to the new shards. The other objects of the former shards stay.
func (p *pass) assignMovedDependents(ctx context.Context) error {
	began := p.now()
	if len(p.moved) == 0 {
		p.lastDependents.at = began
		return nil
	}
	placements, from := map[id]*ownerPlacement{}, map[string]bool{}
	mains := map[v1alpha1.GroupResource]bool{}
	for key, l := range p.moved {
		placements[key], from[l.from], mains[key.GroupResource] = &l.ownerPlacement, true, true
	}
	selector := v1alpha1.LabelShard(p.ring.Name)
	if len(from) <= maxSelected {
		selector += " in (" + strings.Join(slices.Sorted(maps.Keys(from)), ",") + ")"
	}
	for _, r := range p.layout.controlled {
		if !slices.ContainsFunc(r.mains, func(main *resource) bool { return mains[main.GroupResource] }) {
			continue
		}
		err := p.forEachPage(ctx, r, selector, func(page []object) error {
			dependents, err := p.filterDependents(ctx, r, page, func(f *dependent) bool { return placements[f.owner] != nil })
			if err != nil {
				return err
			}
			return p.executeDependentPlans(ctx, p.planFollowingOwners(dependents, placements))
		})
		if err != nil {
			return err
		}
	}
	clear(p.moved)
	p.lastDependents = lastRun{p.now(), p.now().Sub(began)}
	return nil
}
