package ring

import (
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Shards are the shards of a ring.
type Shards struct {
	// Ring has the shards that objects can be assigned to. It includes a late shard, which may come back. Until it certainly does not
	// work, no other shard may have its objects.
	*Ring
	available map[string]bool
}

// NewShards returns the shards with the given states, which derive from their Leases.
func NewShards(states map[string]v1alpha1.ShardState, tokensPerShard int) *Shards {
	s := &Shards{available: map[string]bool{}}
	var names []string
	for name, state := range states {
		if IsAvailable(state) {
			s.available[name] = true
			names = append(names, name)
		}
	}
	s.Ring = New(names, tokensPerShard)
	return s
}

// IsAvailable reports whether objects can be assigned to a shard.
func (s *Shards) IsAvailable(shard string) bool { return s.available[shard] }

// Load limits the number of objects of a shard. The zero value has no limit.
type Load struct {
	// Limit is the maximum; 0 means no limit.
	Limit int64
	// Of is the number of objects of each shard.
	Of map[string]int64
}

// Limit returns the maximum number of objects of a shard: a percentage of the mean, rounded up. It returns 0, for no limit, if there
// is no percentage or no shard.
func Limit(objects int64, shards int, maxLoadPercent *int32) int64 {
	if maxLoadPercent == nil || shards == 0 {
		return 0
	}
	of := int64(shards) * 100
	return max((objects*int64(*maxLoadPercent)+of-1)/of, 1)
}

// Want returns the shard that a key should be assigned to: its owner or, if that is full, the next one that is not. It returns false
// if there is no shard. Objects that must stay together are placed without regard to the limit: with the owner of their key, even if
// it is full.
func (s *Shards) Want(key string, load Load) (string, bool) {
	if load.Limit > 0 && !isShared(key) {
		for shard := range s.Walk(key) {
			if load.Of[shard] < load.Limit {
				return shard, true
			}
		}
	}
	return s.Owner(key)
}

// Placement is the placement of an object according to its labels.
type Placement struct {
	// Shard is the shard that works on the object. It is empty if there is none.
	Shard string
	// Draining reports that the shard is asked to release the object.
	Draining bool
	// Released reports that its previous shard has released the object, and it is not assigned yet.
	Released bool
}

// PlacementOf derives the placement from the labels of an object.
func PlacementOf(ring string, labels map[string]string) Placement {
	value, draining := labels[v1alpha1.LabelDrain(ring)]
	p := Placement{Shard: labels[v1alpha1.LabelShard(ring)], Draining: draining}
	if p.Shard == "" && value == v1alpha1.DrainAnswered {
		p.Draining, p.Released = false, true
	}
	return p
}

// Action is the next action for an object.
type Action string

// The actions.
const (
	// Keep does nothing.
	Keep Action = "Keep"
	// Assign assigns the object to the shard that should have it. No shard works on it now.
	Assign Action = "Assign"
	// Drain asks the shard that has the object to release it.
	Drain Action = "Drain"
	// Undrain cancels Drain.
	Undrain Action = "Undrain"
	// Await waits until the shard has released the object.
	Await Action = "Await"
	// Clear removes the labels of a ring that the object does not belong to.
	Clear Action = "Clear"
)

// Decide returns the action for an object of a ring's resource that should be assigned to the shard want.
func (s *Shards) Decide(has Placement, want string) Action {
	switch {
	case want == "":
		return Keep // there are no shards
	case !s.IsAvailable(has.Shard):
		return Assign
	case has.Shard == want && has.Draining:
		return Undrain
	case has.Shard == want:
		return Keep
	case has.Draining:
		return Await
	default:
		return Drain
	}
}

// Follow returns the action for an object that another object controls. It follows its controller, and not before the controller has
// moved. It is never drained: shards work on the controller, and have released that.
func (s *Shards) Follow(has, controller Placement) Action {
	switch {
	case !s.IsAvailable(controller.Shard):
		return Keep // the controller is about to be assigned
	case has == Placement{Shard: controller.Shard}:
		return Keep
	default:
		return Assign
	}
}

// Leave returns the action for an object that does not, or no longer, belong to the ring. A shard that works on it must release it
// first. If controlled, no object of the ring controls the object any more, and there is no release to wait for.
func (s *Shards) Leave(has Placement, controlled bool) Action {
	switch {
	case has == Placement{}:
		return Keep
	case controlled || !s.IsAvailable(has.Shard):
		return Clear
	case has.Draining:
		return Await
	default:
		return Drain
	}
}

// Admit returns the shard for an object of a ring's resource that the API server is about to store without one. It returns false if
// there is none. had is the previous placement, and has the placement in the request. Admit restores a label that was removed, unless
// the object's shard removed it because it was asked to: the shard may be at work. It also restores the label of a shard that is
// unavailable here, because replicas may not have seen a new shard yet. A component that reassigns a shard's objects first verifies
// that the shard does not work.
func (s *Shards) Admit(had, has Placement, key string, load Load) (string, bool) {
	if had.Shard != "" && (!had.Draining || !has.Released) {
		return had.Shard, true
	}
	return s.Want(key, load)
}
