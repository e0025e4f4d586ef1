package aggregator

import (
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// owner is the controller of a pod, or of another controller.
type owner struct {
	apiVersion, kind, name string
	uid                    types.UID
}

// groupKind returns the kind of the owner, independent of its version.
func (o owner) groupKind() schema.GroupKind {
	version, _ := schema.ParseGroupVersion(o.apiVersion) // a malformed version has no mapping, and that lookup reports it
	return schema.GroupKind{Group: version.Group, Kind: o.kind}
}

// noOwner is the owner of a pod without a controller.
func noOwner() owner { return owner{} }

// ownerOf returns a handle to one copy that all pods of a controller share: it costs 8 bytes in each pod.
func ownerOf(p *corev1.Pod) unique.Handle[owner] {
	return unique.Make(controllerOf(p))
}

func controllerOf(object metav1.Object) owner {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil {
		return noOwner()
	}
	return owner{apiVersion: ref.APIVersion, kind: ref.Kind, name: ref.Name, uid: ref.UID}
}

// above returns what states the number of an object's dependents if the object does not: its controller or, without one, its only owner. The scale
// of that one must select the pods. Some operators set no controller, as Strimzi for a StrimziPodSet.
func above(object metav1.Object) owner {
	if controller := controllerOf(object); controller != noOwner() {
		return controller
	}
	if all := object.GetOwnerReferences(); len(all) == 1 {
		return owner{apiVersion: all[0].APIVersion, kind: all[0].Kind, name: all[0].Name, uid: all[0].UID}
	}
	return noOwner()
}
