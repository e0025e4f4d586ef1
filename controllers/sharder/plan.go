package sharder

import (
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// step is the action on an object, and the shard that should have it; empty means none.
type step struct {
	action ring.Action
	shard  string
}

// isWrite reports whether the step writes the object and is then complete. Drain also writes, but then waits for the shard.
func (s step) isWrite() bool {
	return s.action == ring.Assign || s.action == ring.Undrain || s.action == ring.Clear
}

// labels returns the labels that the step changes; nil removes a label.
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

// plan is what to do with an object, and the result.
type plan struct {
	resource *resource
	object   *object
	step
	// decide computes the step again after another client has written the object.
	decide func(ring.Placement) step
	// isMember is true if the object belongs to the ring, by its namespace.
	isMember bool
	// mayDrain permits asking a shard to release the object: the number of concurrent moves is bounded.
	mayDrain bool

	outcome outcome
	// before is the placement of the object before it was written.
	before ring.Placement
	err    error
}

// outcome is the result of a plan.
type outcome string

// These are the outcomes.
const (
	// unchanged means that nothing had to be done, or no longer.
	unchanged outcome = ""
	// done means that the object was written.
	done outcome = "done"
	// drainRequested means that a dead shard was asked to release the object nevertheless, in case the shard comes back.
	drainRequested outcome = "asked"
	// notFound means that the object no longer exists.
	notFound outcome = "gone"
	// blocked means that it is not certain that the shard of the object has stopped.
	blocked outcome = "held"
	// failed means that the write failed; err is the reason.
	failed outcome = "failed"
)

// id identifies an object.
type id struct {
	v1alpha1.GroupResource
	namespace, name string
}

func idOf(res *resource, o *object) id { return id{res.GroupResource, o.Namespace, o.Name} }

func (i id) String() string {
	r := resource{GroupResource: i.GroupResource}
	if i.namespace == "" {
		return r.String() + " " + i.name
	}
	return r.String() + " " + i.namespace + "/" + i.name
}
