package snapshot

import (
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Owner is the controller of a pod, or of another controller.
type Owner struct {
	APIVersion, Kind, Name string
	UID                    types.UID
}

// GroupKind returns the kind of the owner, independent of its version.
func (o Owner) GroupKind() schema.GroupKind {
	version, _ := schema.ParseGroupVersion(o.APIVersion) // a malformed version has no mapping, and that lookup reports it
	return schema.GroupKind{Group: version.Group, Kind: o.Kind}
}

// NoOwner is the owner of a pod without a controller.
func NoOwner() Owner { return Owner{} }

// ownerOf returns a handle to one copy that all pods of a controller share: it costs 8 bytes in each pod.
func ownerOf(p *corev1.Pod) unique.Handle[Owner] {
	return unique.Make(ControllerOf(p))
}

// ControllerOf returns the controller of an object.
func ControllerOf(object metav1.Object) Owner {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil {
		return NoOwner()
	}
	return Owner{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, UID: ref.UID}
}

// Above returns what states the number of an object's dependents if the object does not: its controller or, without one, its only owner. The scale
// of that one must select the pods. Some operators set no controller, as Strimzi for a StrimziPodSet.
func Above(object metav1.Object) Owner {
	if controller := ControllerOf(object); controller != NoOwner() {
		return controller
	}
	if all := object.GetOwnerReferences(); len(all) == 1 {
		return Owner{APIVersion: all[0].APIVersion, Kind: all[0].Kind, Name: all[0].Name, UID: all[0].UID}
	}
	return NoOwner()
}
