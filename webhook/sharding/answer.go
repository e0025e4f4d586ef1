package sharding

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// Reason is why a review was answered as it was. Whatever it is, the object is stored.
type Reason string

// The reasons. Assigned, Moved and PutBack give the object to a shard; all others leave it as it is.
const (
	// Assigned gives an object that no shard has to one.
	Assigned Reason = "Assigned"
	// Moved gives it to another one than had it, which has let go of it.
	Moved Reason = "Moved"
	// PutBack leaves it with its shard, which has not let go of it: somebody else took the label off.
	PutBack Reason = "PutBack"
	// AlreadyAssigned has a shard.
	AlreadyAssigned Reason = "AlreadyAssigned"
	// NoShards has a ring of which no shard is available.
	NoShards Reason = "NoShards"
	// NotControlled is of a controlledResource, and no object controls it that the ring assigns.
	NotControlled Reason = "NotControlled"
	// ControllerNotFound is controlled by an object that does not exist.
	ControllerNotFound Reason = "ControllerNotFound"
	// ControllerUnassigned is controlled by an object that no shard has.
	ControllerUnassigned Reason = "ControllerUnassigned"
	// ControllerUnread is controlled by an object that could not be read in time.
	ControllerUnread Reason = "ControllerUnread"
	// TooLarge has no room for the annotation that an object without a name needs.
	TooLarge Reason = "TooLarge"
	// Ignored is a review that rings have nothing to do with: of a subresource, a deletion.
	Ignored Reason = "Ignored"
	// NotOfRing is of a resource that the ring does not have.
	NotOfRing Reason = "NotOfRing"
	// UnknownRing is of a ring that does not exist.
	UnknownRing Reason = "UnknownRing"
	// NotReady is a review that came before this replica knew rings and shards.
	NotReady Reason = "NotReady"
	// Invalid cannot be read.
	Invalid Reason = "Invalid"
	// Failed is a fault of ours.
	Failed Reason = "Failed"
)

// Answer is what becomes of an object.
type Answer struct {
	Reason Reason
	// Shard that it is given to; empty leaves it as it is.
	Shard string
	// Key is that of an object without a name; empty is not needed.
	Key string
	// Drain puts the label back that asks its shard to let go, and Undrain takes it off: it is none of the new one's.
	Drain, Undrain bool
	// Resync asks for a look at all objects of the ring soon, as this one may not be where it is to be.
	Resync bool
}

// Assign answers for an object of a ring's resources.
func (o *Object) Assign(shards *ring.Shards, load ring.Load) Answer {
	answer := Answer{Reason: Assigned}
	key := ring.KeyOf(o.ring.Spec.KeyPolicy, o.of, &o.meta)
	if key == "" {
		answer.Key = ring.Generated(string(o.review))
		key = answer.Key
	}
	shard, ok := shards.Admit(o.had, o.has, key, load)
	switch {
	case !ok:
		return Answer{Reason: NoShards}
	case answer.Key != "" && !o.hasRoom(answer.Key):
		return Answer{Reason: TooLarge, Resync: true}
	case o.had.Shard == shard && !o.isLetGo():
		answer.Reason, answer.Resync = PutBack, !shards.IsAvailable(shard)
	case o.had.Shard != "" && o.had.Shard != shard:
		answer.Reason = Moved
	}
	answer.Shard = shard
	return o.ask(answer)
}

// isLetGo tells whether the shard that had the object was asked to let go of it, and has.
func (o *Object) isLetGo() bool { return o.had.Draining && o.has.LetGo }

// ask completes an answer: an object is on its way only as long as it is with the shard that was asked to let go.
func (o *Object) ask(answer Answer) Answer {
	asked := answer.Reason == PutBack && o.had.Draining
	answer.Drain = asked && !o.has.Draining
	answer.Undrain = !asked && (o.has.Draining || o.has.LetGo)
	return answer
}

// Follow answers for an object of a controlledResource whose controller is there.
func (o *Object) Follow(shards *ring.Shards, controller ring.Placement) Answer {
	if shards.Follow(o.has, controller) != ring.Assign {
		answer := o.Stay(ControllerUnassigned)
		answer.Resync = answer.Resync && len(shards.Shards()) > 0 // all objects are looked at when there is one
		return answer
	}
	answer := Answer{Reason: Assigned, Shard: controller.Shard, Undrain: o.has.Draining || o.has.LetGo}
	switch o.had.Shard {
	case "":
	case controller.Shard:
		answer.Reason = PutBack
	default:
		answer.Reason = Moved
	}
	return answer
}

// Stay answers for an object of which it cannot be told now where it is to be. One that its shard has not let go of stays there.
func (o *Object) Stay(reason Reason) Answer {
	if o.had.Shard == "" || o.isLetGo() {
		return Answer{Reason: reason, Resync: true}
	}
	return o.ask(Answer{Reason: PutBack, Shard: o.had.Shard, Resync: true})
}

// hasRoom tells whether a sharding key fits: the apiserver refuses an object whose annotations are too large together.
func (o *Object) hasRoom(key string) bool {
	annotations := maps.Clone(o.meta.Annotations)
	if annotations == nil {
		return true
	}
	annotations[v1alpha1.AnnotationShardingKey] = key
	return validation.ValidateAnnotationsSize(annotations) == nil
}

// change is one of a JSON patch.
type change struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Patch is the JSON patch of an answer; nil changes nothing. It applies to the object as it was sent, whatever it has: the apiserver
// would refuse the request otherwise.
func (o *Object) Patch(answer Answer) ([]byte, error) {
	if answer.Shard == "" {
		return nil, nil
	}
	labels, drain := map[string]string{v1alpha1.LabelShard(o.ring.Name): answer.Shard}, v1alpha1.LabelDrain(o.ring.Name)
	if answer.Drain {
		labels[drain] = v1alpha1.DrainAsked
	}
	changes := add("labels", o.meta.Labels, labels)
	if answer.Undrain {
		changes = append(changes, change{Op: "remove", Path: pathOf("labels", drain)})
	}
	if answer.Key != "" {
		changes = append(changes, add("annotations", o.meta.Annotations, map[string]string{v1alpha1.AnnotationShardingKey: answer.Key})...)
	}
	return json.Marshal(changes)
}

// add sets some of the object's labels or annotations. What has none yet is not there to be added to.
func add(to string, has, set map[string]string) (changes []change) {
	if has == nil {
		return []change{{Op: "add", Path: "/metadata/" + to, Value: set}}
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		changes = append(changes, change{Op: "add", Path: pathOf(to, key), Value: set[key]})
	}
	return changes
}

func pathOf(in, key string) string {
	return "/metadata/" + in + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
