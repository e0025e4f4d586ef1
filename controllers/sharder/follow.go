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

// follower is an object that another object may control.
type follower struct {
	*plan
	// main is the resource of the object that controls it, nil if no object of the ring does. owner identifies that object, and uid is its
	// UID.
	main  *resource
	owner id
	uid   types.UID
}

// landing is the placement of an object that controls others.
type landing struct {
	uid types.UID
	ring.Placement
}

// follow assigns controlled objects to the shards of their controllers.
func (p *pass) follow(ctx context.Context) error {
	var failed []error
	for _, r := range p.layout.controlled {
		if slices.ContainsFunc(r.mains, func(main *resource) bool { return !p.looked[main] }) {
			continue // it is not known which of their objects are strays
		}
		err := p.pages(ctx, r, "", func(page []object) error {
			plans, err := p.followUps(ctx, r, page)
			if err != nil {
				return err
			}
			return p.settleFollowers(ctx, plans)
		})
		if isEnd(ctx, err) {
			return err
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// followUps plans those controlled objects of a page that may not be with their shard.
func (p *pass) followUps(ctx context.Context, r *resource, page []object) ([]*plan, error) {
	some, err := p.followers(ctx, r, page, p.mayMove)
	if err != nil {
		return nil, err
	}
	where, err := p.locate(ctx, some)
	if err != nil {
		return nil, err
	}
	return p.followTo(some, where), nil
}

// followers returns the objects of a page for which holds is true.
func (p *pass) followers(ctx context.Context, r *resource, page []object, holds func(*follower) bool) ([]*follower, error) {
	var all []*follower
	land := p.territory()
	for i := range page {
		o := &page[i]
		f := &follower{plan: &plan{of: r, object: o, had: p.placementOf(o)}}
		var err error
		if f.isMember, err = land.has(ctx, o.Namespace, f.had != ring.Placement{}); err != nil {
			return nil, err
		}
		if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
			f.main, f.owner = r.controller(o, owner)
			f.uid = owner.UID
		}
		if holds(f) {
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
			of := id{GroupResource: main.GroupResource, name: owner.Name}
			if main.namespaced {
				of.namespace = o.Namespace
			}
			return main, of
		}
	}
	return nil, id{}
}

// mayMove reports whether an object may not be with its shard, as far as can be determined without reading its controller. The controller
// is where its name would place it, unless it is a stray.
func (p *pass) mayMove(f *follower) bool {
	isNowhere := f.had == ring.Placement{}
	switch {
	case f.main == nil:
		return f.of.whole && !isNowhere
	case !f.isMember:
		return !isNowhere
	}
	byName, ok := p.shards.Owner(p.nameKey(f.main, f.owner.namespace, f.owner.name))
	return ok && (f.had != ring.Placement{Shard: byName} || p.strays.may(f.owner))
}

// locate reads the placements of the objects that control others. An object that does not exist has an empty landing.
func (p *pass) locate(ctx context.Context, all []*follower) (map[id]*landing, error) {
	where := map[id]*landing{}
	mains := map[id]*resource{}
	for _, f := range all {
		if f.main != nil {
			where[f.owner], mains[f.owner] = &landing{}, f.main
		}
	}
	err := each(ctx, p.tempo.writers, slices.Collect(maps.Keys(where)), func(ctx context.Context, of id) error {
		o, err := p.objects.get(ctx, mains[of], of.namespace, of.name)
		if err == nil {
			*where[of] = landing{o.UID, p.placementOf(o)}
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("get %s: %w", of, err)
		}
		return nil
	})
	return where, err
}

// followTo plans objects to go to the shards of their controllers. If a controller no longer exists, or was recreated under the same name,
// its objects stay where they are: the garbage collector handles them.
func (p *pass) followTo(all []*follower, where map[id]*landing) []*plan {
	plans := make([]*plan, 0, len(all))
	for _, f := range all {
		to := where[f.owner]
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
		f.step = f.decide(f.had)
		plans = append(plans, f.plan)
	}
	return plans
}

func (p *pass) settleFollowers(ctx context.Context, plans []*plan) error {
	if err := p.settleAll(ctx, plans); err != nil {
		return fmt.Errorf("assign what others control: %w", err)
	}
	return nil
}

// followLanded assigns the objects that moved objects control to the new shards. The other objects of the former shards stay.
func (p *pass) followLanded(ctx context.Context) error {
	began := p.now()
	if len(p.landed) == 0 {
		p.followed.at = began
		return nil
	}
	where, from := map[id]*landing{}, map[string]bool{}
	mains := map[v1alpha1.GroupResource]bool{}
	for of, l := range p.landed {
		where[of], from[l.from], mains[of.GroupResource] = &l.landing, true, true
	}
	selector := v1alpha1.LabelShard(p.ring.Name)
	if len(from) <= maxSelected {
		selector += " in (" + strings.Join(slices.Sorted(maps.Keys(from)), ",") + ")"
	}
	for _, r := range p.layout.controlled {
		if !slices.ContainsFunc(r.mains, func(main *resource) bool { return mains[main.GroupResource] }) {
			continue
		}
		err := p.pages(ctx, r, selector, func(page []object) error {
			some, err := p.followers(ctx, r, page, func(f *follower) bool { return where[f.owner] != nil })
			if err != nil {
				return err
			}
			return p.settleFollowers(ctx, p.followTo(some, where))
		})
		if err != nil {
			return err
		}
	}
	clear(p.landed)
	p.followed = lap{p.now(), p.now().Sub(began)}
	return nil
}
