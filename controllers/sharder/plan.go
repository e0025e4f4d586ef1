package sharder

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// step is what has to be done to an object, and the shard that is to have it; empty is none.
type step struct {
	action ring.Action
	shard  string
}

// isWrite tells whether the sharder writes the object, to be at rest then. Drain it writes as well, and waits.
func (s step) isWrite() bool {
	return s.action == ring.Assign || s.action == ring.Undrain || s.action == ring.Clear
}

// labels are those that the step changes; nil takes one off.
func (s step) labels(of string) map[string]any {
	shard, drain := v1alpha1.LabelShard(of), v1alpha1.LabelDrain(of)
	switch s.action {
	case ring.Assign:
		return map[string]any{shard: s.shard, drain: nil}
	case ring.Drain:
		return map[string]any{drain: v1alpha1.DrainAsked}
	case ring.Undrain:
		return map[string]any{drain: nil}
	case ring.Clear:
		return map[string]any{shard: nil, drain: nil}
	default:
		return nil
	}
}

// plan is what is to become of an object, and what has.
type plan struct {
	of     *resource
	object *object
	step
	// decide finds the step anew when somebody else has written the object.
	decide func(ring.Placement) step
	// isMember tells whether the object belongs to the ring, by its namespace.
	isMember bool
	// mayDrain lets a shard be asked to let go of the object: so many may be on their way, and no more.
	mayDrain bool

	outcome outcome
	// had is where the object was before it was written.
	had ring.Placement
	err error
}

// outcome is what has become of a plan.
type outcome string

// The outcomes.
const (
	// kept had nothing to be done, or not any more.
	kept outcome = ""
	// done was written.
	done outcome = "done"
	// asked is of a shard that is gone, which was asked to let go of it all the same, in case that it comes back.
	asked outcome = "asked"
	// gone does not exist any more.
	gone outcome = "gone"
	// held is of a shard of which it is not certain that it does not work.
	held outcome = "held"
	// failed was not written; err says why.
	failed outcome = "failed"
)

// id tells an object from all others.
type id struct {
	v1alpha1.GroupResource
	namespace, name string
}

func idOf(of *resource, o *object) id { return id{of.GroupResource, o.Namespace, o.Name} }

func (i id) String() string {
	r := resource{GroupResource: i.GroupResource}
	if i.namespace == "" {
		return r.String() + " " + i.name
	}
	return r.String() + " " + i.namespace + "/" + i.name
}

// plan says what has to be done to an object of one of the ring's resources. What shards have is kept in load, where the object counts as
// one of the shard that is to have it from then on: objects are taken one after the other, so that all find room.
func (p *pass) plan(of *resource, o *object, isMember bool, load ring.Load) *plan {
	has := p.placementOf(o)
	if !isMember {
		decide := func(has ring.Placement) step { return step{action: p.shards.Leave(has, false)} }
		return &plan{of: of, object: o, decide: decide, step: decide(has)}
	}
	if load.Limit > 0 && p.shards.IsAvailable(has.Shard) {
		load.Of[has.Shard]--
	}
	want, ok := p.shards.Want(ring.KeyOf(p.ring.Spec.KeyPolicy, of.GroupResource, o), load)
	if load.Limit > 0 && ok {
		load.Of[want]++
	}
	decide := func(has ring.Placement) step { return step{action: p.shards.Decide(has, want), shard: want} }
	return &plan{of: of, object: o, isMember: true, decide: decide, step: decide(has)}
}

func (p *pass) placementOf(o *object) ring.Placement { return ring.PlacementOf(p.ring.Name, o.Labels) }

// nameKey is what an object is assigned by if it does not say so itself.
func (p *pass) nameKey(of *resource, namespace, name string) string {
	return ring.KeyOf(p.ring.Spec.KeyPolicy, of.GroupResource, &metav1.ObjectMeta{Namespace: namespace, Name: name})
}
