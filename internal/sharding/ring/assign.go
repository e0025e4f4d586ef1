package ring

import (
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Shards are the shards of a ring.
type Shards struct {
	// Ring has those that objects can be with. One that is late is among them: it may come back, and until it is certain that
	// it does not work nobody else may have its objects.
	*Ring
	available map[string]bool
}

// NewShards makes them of the states that Leases tell.
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

// IsAvailable tells whether objects can be with a shard.
func (s *Shards) IsAvailable(shard string) bool { return s.available[shard] }

// Load bounds how many objects a shard has. The zero value does not.
type Load struct {
	// Limit is the most; 0 is no limit.
	Limit int64
	// Of is how many each shard has.
	Of map[string]int64
}

// Limit is how many of so many objects a shard may have when it may have a percentage of the mean, rounded up; 0, for no limit, when
// there is none.
func Limit(objects int64, shards int, maxLoadPercent *int32) int64 {
	if maxLoadPercent == nil || shards == 0 {
		return 0
	}
	of := int64(shards) * 100
	return max((objects*int64(*maxLoadPercent)+of-1)/of, 1)
}

// Want is the shard that is to have a key: its owner, or when that is full the next one that is not; false when there is none. Objects
// that must be together are not counted when they are placed: they are with the owner of their key, full or not.
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

// Placement is where an object is, as its labels say.
type Placement struct {
	// Shard that works on it; empty is none.
	Shard string
	// Draining tells that the shard is asked to let go of it.
	Draining bool
	// LetGo tells that the shard which had it has, and nobody has it yet.
	LetGo bool
}

// PlacementOf reads the labels of an object.
func PlacementOf(ring string, labels map[string]string) Placement {
	value, draining := labels[v1alpha1.LabelDrain(ring)]
	p := Placement{Shard: labels[v1alpha1.LabelShard(ring)], Draining: draining}
	if p.Shard == "" && value == v1alpha1.DrainAnswered {
		p.Draining, p.LetGo = false, true
	}
	return p
}

// Action is what has to be done to an object.
type Action string

// The actions.
const (
	// Keep does nothing.
	Keep Action = "Keep"
	// Assign gives the object to the shard that is to have it; nobody works on it now.
	Assign Action = "Assign"
	// Drain asks the shard that has it to let go.
	Drain Action = "Drain"
	// Undrain takes that back.
	Undrain Action = "Undrain"
	// Await waits until the shard has let go.
	Await Action = "Await"
	// Clear takes off what is left of a ring that the object does not belong to.
	Clear Action = "Clear"
)

// Decide tells what has to happen to an object of a ring's resource that a shard is to have.
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

// Follow tells what has to happen to an object that another one controls: it goes where that is, and not before. It is never drained,
// since shards work on objects that control others, and have let go of that one.
func (s *Shards) Follow(has, controller Placement) Action {
	switch {
	case !s.IsAvailable(controller.Shard):
		return Keep // it is about to be assigned
	case has == Placement{Shard: controller.Shard}:
		return Keep
	default:
		return Assign
	}
}

// Leave tells what has to happen to an object that does not belong to the ring, or no longer: a shard that works on it lets go first.
// An object that another one controlled is controlled by none now.
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

// Admit is the shard of an object of a ring's resource that the apiserver is about to store without one; false when there is none. had
// is where it was until now, and has what the object says now. A label that was taken off by anybody but its shard, which was asked to,
// is put back: the shard may be at work. So may one that is not available here, since a shard that has just come is not known to
// everybody. Who gives its objects to others makes certain first.
func (s *Shards) Admit(had, has Placement, key string, load Load) (string, bool) {
	if had.Shard != "" && (!had.Draining || !has.LetGo) {
		return had.Shard, true
	}
	return s.Want(key, load)
}
