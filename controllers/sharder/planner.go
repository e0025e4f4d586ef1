package sharder

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// planner decides which shard each object belongs to, and what has to be done for that. It is pure: it reads and writes nothing but its
// arguments. Its ring and its shards are those of the beginning of a pass.
type planner struct {
	ring   *v1alpha1.ClusterRing
	shards *ring.Shards
}

func (p planner) placementOf(o *object) ring.Placement {
	return ring.PlacementOf(p.ring.Name, o.Labels)
}

// owner returns the shard of an object that does not state a sharding key itself; false if no shard is available.
func (p planner) owner(key id) (string, bool) {
	return p.shards.Owner(ring.KeyOf(p.ring.Spec.KeyPolicy, key.GroupResource, &metav1.ObjectMeta{Namespace: key.namespace, Name: key.name}))
}

// planObject returns what has to be done to an object of one of the ring's resources. It tracks the load of shards in load, where the object then
// counts for its new shard. Objects are planned one after the other, so that all find a shard within the limit.
func (p planner) planObject(res *resource, o *object, isMember bool, load ring.Load) *plan {
	has := p.placementOf(o)
	if !isMember {
		decide := func(has ring.Placement) step { return step{action: p.shards.Leave(has, false)} }
		return &plan{resource: res, object: o, decide: decide, step: decide(has)}
	}
	if load.Limit > 0 && p.shards.IsAvailable(has.Shard) {
		load.Of[has.Shard]--
	}
	want, ok := p.shards.Want(ring.KeyOf(p.ring.Spec.KeyPolicy, res.GroupResource, o), load)
	if load.Limit > 0 && ok {
		load.Of[want]++
	}
	decide := func(has ring.Placement) step { return step{action: p.shards.Decide(has, want), shard: want} }
	return &plan{resource: res, object: o, isMember: true, decide: decide, step: decide(has)}
}

// planDestination plans an object that its shard has released and that no shard has: it goes to the destination of its move. load is as for
// planObject.
func (p planner) planDestination(x *plan, former move, isMember bool, load ring.Load) *plan {
	if isMember && p.shards.IsAvailable(former.to) {
		decide := func(has ring.Placement) step { return step{action: p.shards.Decide(has, former.to), shard: former.to} }
		return &plan{resource: x.resource, object: x.object, isMember: true, decide: decide, step: decide(p.placementOf(x.object))}
	}
	if load.Limit > 0 {
		load.Of[former.from]-- // where it was when objects were counted
	}
	return p.planObject(x.resource, x.object, isMember, load)
}

// moveResult returns the result of a move; empty if the object is still draining.
func (p planner) moveResult(x *plan, former move) string {
	has := p.placementOf(x.object)
	switch {
	case x.outcome == notFound || x.object.UID != former.uid:
		return moveDeleted
	case has == ring.Placement{Shard: former.from, Draining: true}:
		return ""
	case has.Shard == former.from:
		return moveStayed
	case p.shards.IsAvailable(has.Shard):
		return moveDone
	default:
		return moveUnassigned
	}
}

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

// mayBeMisplaced reports whether an object may not be with its shard, as far as can be determined without reading its controller. The controller
// is where its name would place it, unless it is a stray.
func (p planner) mayBeMisplaced(f *dependent, displaced *displacedSet) bool {
	isUnassigned := f.before == ring.Placement{}
	switch {
	case f.main == nil:
		return f.resource.hasAllMains && !isUnassigned
	case !f.isMember:
		return !isUnassigned
	}
	byName, ok := p.owner(f.owner)
	return ok && (f.before != ring.Placement{Shard: byName} || displaced.mayContain(f.owner))
}

// planFollowingOwners plans objects to go to the shards of their controllers. If a controller no longer exists, or was recreated under the same name,
// its objects stay where they are: the garbage collector handles them.
func (p planner) planFollowingOwners(all []*dependent, placements map[id]*ownerPlacement) []*plan {
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
