package sharding

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// Object is an object that is about to be stored, as its ring sees it. Only its metadata is read, so that it may be of
// any kind. An object that is being deleted is handled the same way, because its shard has to finish the deletion.
type Object struct {
	ring *v1alpha1.ClusterRing
	// resource is its resource, as the ring names it.
	resource v1alpha1.GroupResource
	// controllerResources are the ring's resources whose objects may control it, if it is an object of a controlled resource; none for
	// an object of the ring's resources.
	controllerResources []v1alpha1.GroupResource
	// meta contains only names, labels, annotations and owners.
	meta metav1.ObjectMeta
	// placement is the placement in the object to be stored, and had the placement in the stored object.
	placement, previous ring.Placement
	// review is the UID of this review.
	review types.UID
}

// Read returns the object that a review of a ring is about. of is nil if the ring does not exist. If there is nothing
// to assign, Read returns the reason.
func Read(of *v1alpha1.ClusterRing, request *admissionv1.AdmissionRequest) (*Object, Reason) {
	if of == nil {
		return nil, UnknownRing
	}
	create, update := request.Operation == admissionv1.Create, request.Operation == admissionv1.Update
	if request.SubResource != "" || !create && !update {
		return nil, Ignored
	}
	o := &Object{ring: of, review: request.UID}
	if !o.findResource(request) {
		return nil, NotOfRing
	}
	err := decodeMeta(request.Object.Raw, &o.meta)
	before := metav1.ObjectMeta{}
	if err == nil && update {
		err = decodeMeta(request.OldObject.Raw, &before)
	}
	if err != nil {
		return nil, Invalid
	}
	if o.meta.Name == "" {
		o.meta.Name = request.Name
	}
	// In the review of a Namespace, request.Namespace is the object's own name.
	if o.meta.Namespace == "" && (o.resource != v1alpha1.GroupResource{Resource: "namespaces"}) {
		o.meta.Namespace = request.Namespace
	}
	o.placement, o.previous = ring.PlacementOf(of.Name, o.meta.Labels), ring.PlacementOf(of.Name, before.Labels)
	if o.placement.Shard != "" {
		return nil, AlreadyAssigned
	}
	return o, ""
}

// findResource finds the object's resource in the ring: the resource of the rule that matched, or the one that the client
// wrote to. It ignores versions, since an object can be written through each of its versions.
func (o *Object) findResource(request *admissionv1.AdmissionRequest) bool {
	names := []v1alpha1.GroupResource{{Group: request.Resource.Group, Resource: request.Resource.Resource}}
	if requested := request.RequestResource; requested != nil {
		names = append(names, v1alpha1.GroupResource{Group: requested.Group, Resource: requested.Resource})
	}
	for _, o.resource = range names {
		for _, main := range o.ring.Spec.Resources {
			if main.GroupResource == o.resource {
				return true
			}
			for _, controlled := range main.ControlledResources {
				if controlled == o.resource {
					o.controllerResources = append(o.controllerResources, main.GroupResource)
				}
			}
		}
		if len(o.controllerResources) > 0 {
			return true
		}
	}
	return false
}

// Controller returns the owner that controls the object; nil if there is none.
func (o *Object) Controller() *metav1.OwnerReference { return metav1.GetControllerOfNoCopy(&o.meta) }

// IsControlled reports whether the object follows the shard of its controller.
func (o *Object) IsControlled() bool { return len(o.controllerResources) > 0 }

// decodeMeta decodes the relevant metadata of an object. It returns an error if the object has no metadata.
func decodeMeta(raw []byte, into *metav1.ObjectMeta) error {
	read := struct {
		Metadata *struct {
			Name            string                  `json:"name"`
			Namespace       string                  `json:"namespace"`
			Labels          map[string]string       `json:"labels"`
			Annotations     map[string]string       `json:"annotations"`
			OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
		} `json:"metadata"`
	}{}
	if err := removal.DecodeJSON(raw, &read); err != nil {
		return err
	}
	m := read.Metadata
	if m == nil {
		return fmt.Errorf("an object has no metadata")
	}
	into.Name, into.Namespace, into.Labels, into.Annotations, into.OwnerReferences = m.Name, m.Namespace, m.Labels, m.Annotations, m.OwnerReferences
	return nil
}
