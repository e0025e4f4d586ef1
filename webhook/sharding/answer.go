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

// Reason is the reason for the answer to a review. The object is stored in every case.
type Reason string

// The reasons. Assigned, Moved and PutBack assign the object to a shard; all others leave the object unchanged.
const (
	// Assigned: the object had no shard and gets one.
	Assigned Reason = "Assigned"
	// Moved: the object gets another shard, after the previous one released it.
	Moved Reason = "Moved"
	// PutBack: the object stays with its shard, which has not released it: another client removed the label.
	PutBack Reason = "PutBack"
	// AlreadyAssigned: the object has a shard.
	AlreadyAssigned Reason = "AlreadyAssigned"
	// NoShards: no shard of the ring is available.
	NoShards Reason = "NoShards"
	// NotControlled: the object is of a controlled resource, but no object that the ring assigns controls it.
	NotControlled Reason = "NotControlled"
	// ControllerNotFound: the controlling object does not exist.
	ControllerNotFound Reason = "ControllerNotFound"
	// ControllerUnassigned: the controlling object has no shard.
	ControllerUnassigned Reason = "ControllerUnassigned"
	// ControllerUnread: the controlling object could not be read in time.
	ControllerUnread Reason = "ControllerUnread"
	// TooLarge: the object has no room for the annotation that an object without a name needs.
	TooLarge Reason = "TooLarge"
	// Ignored: rings do not apply to the review: a subresource or a deletion.
	Ignored Reason = "Ignored"
	// NotOfRing: the ring does not contain the resource.
	NotOfRing Reason = "NotOfRing"
	// UnknownRing: the ring does not exist.
	UnknownRing Reason = "UnknownRing"
	// NotReady: this replica had not read rings and shards yet.
	NotReady Reason = "NotReady"
	// Invalid: the object cannot be decoded.
	Invalid Reason = "Invalid"
	// Failed: the webhook had an internal error.
	Failed Reason = "Failed"
)

// Answer is the decision about an object.
type Answer struct {
	Reason Reason
	// Shard is the shard to assign; empty leaves the object unchanged.
	Shard string
	// Key is the sharding key of an object without a name; empty if it needs none.
	Key string
	// Drain restores the label that asks the shard to release the object. Undrain removes it, because it does not apply
	// to the new shard.
	Drain, Undrain bool
	// Resync requests a resync of the ring soon, because this object may be on the wrong shard.
	Resync bool
}

// Assign decides about an object of a ring's resources.
func (o *Object) Assign(shards *ring.Shards, load ring.Load) Answer {
	answer := Answer{Reason: Assigned}
	key := ring.KeyOf(o.ring.Spec.KeyPolicy, o.resource, &o.meta)
	if key == "" {
		answer.Key = ring.Generated(string(o.review))
		key = answer.Key
	}
	shard, ok := shards.Admit(o.previous, o.placement, key, load)
	switch {
	case !ok:
		return Answer{Reason: NoShards}
	case answer.Key != "" && !o.hasRoom(answer.Key):
		return Answer{Reason: TooLarge, Resync: true}
	case o.previous.Shard == shard && !o.isReleased():
		answer.Reason, answer.Resync = PutBack, !shards.IsAvailable(shard)
	case o.previous.Shard != "" && o.previous.Shard != shard:
		answer.Reason = Moved
	}
	answer.Shard = shard
	return o.withDrainLabel(answer)
}

// isReleased reports whether the shard that had the object was asked to release it, and has done so.
func (o *Object) isReleased() bool { return o.previous.Draining && o.placement.Released }

// withDrainLabel completes an answer. The label drain remains only while the object stays with the shard that was asked to release
// it.
func (o *Object) withDrainLabel(answer Answer) Answer {
	keepsDrain := answer.Reason == PutBack && o.previous.Draining
	answer.Drain = keepsDrain && !o.placement.Draining
	answer.Undrain = !keepsDrain && (o.placement.Draining || o.placement.Released)
	return answer
}

// Follow decides about an object of a controlled resource whose controller exists.
func (o *Object) Follow(shards *ring.Shards, controller ring.Placement) Answer {
	if shards.Follow(o.placement, controller) != ring.Assign {
		answer := o.Stay(ControllerUnassigned)
		answer.Resync = answer.Resync && len(shards.Shards()) > 0 // the first shard triggers a resync anyway
		return answer
	}
	answer := Answer{Reason: Assigned, Shard: controller.Shard, Undrain: o.placement.Draining || o.placement.Released}
	switch o.previous.Shard {
	case "":
	case controller.Shard:
		answer.Reason = PutBack
	default:
		answer.Reason = Moved
	}
	return answer
}

// Stay decides about an object whose shard cannot be determined now. An object that its shard has not released stays
// there.
func (o *Object) Stay(reason Reason) Answer {
	if o.previous.Shard == "" || o.isReleased() {
		return Answer{Reason: reason, Resync: true}
	}
	return o.withDrainLabel(Answer{Reason: PutBack, Shard: o.previous.Shard, Resync: true})
}

// hasRoom reports whether a sharding key fits: the API server refuses an object whose annotations exceed a total size.
func (o *Object) hasRoom(key string) bool {
	annotations := maps.Clone(o.meta.Annotations)
	if annotations == nil {
		return true
	}
	annotations[v1alpha1.AnnotationShardingKey] = key
	return validation.ValidateAnnotationsSize(annotations) == nil
}

// change is one operation of a JSON patch.
type change struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Patch returns the JSON patch of an answer; nil changes nothing. The patch must apply to the object exactly as it was
// sent, since the API server would refuse the request otherwise.
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

// add returns the changes that set labels or annotations. If the object has no such map yet, it adds the whole map.
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
