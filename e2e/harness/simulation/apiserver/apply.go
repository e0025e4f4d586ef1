package apiserver

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// apply is server-side apply as far as the controllers use it. The generator owns a protector's spec, its labels, annotations and
// finalizer, and one condition of its status. The topology controller owns a Cell's finalizer and conditions. They give up no field except
// annotations.
func (h handler) apply(c *call) (any, error) {
	object, err := c.object()
	if err != nil {
		return nil, err
	}
	if cell, ok := object.(*v1alpha1.Cell); ok {
		return h.applyCell(c, cell)
	}
	applied, ok := object.(*v1alpha1.PodProtector)
	if !ok {
		return nil, apierrors.NewBadRequest("only PodProtectors and Cells are applied here")
	}
	applied.Namespace = c.key.Namespace
	updated, err := h.store.Update(c.kind.Resource, c.key, applied.ResourceVersion, h.by.name, func(object client.Object) error {
		stored, ok := object.(*v1alpha1.PodProtector)
		if !ok || applied.UID != "" && applied.UID != stored.UID {
			return h.uidConflict(c)
		}
		if c.subresource == "status" {
			applyConditions(&stored.Status.Conditions, applied.Status.Conditions)
			return nil
		}
		h.store.owned.removeDropped(stored, applied, c.query.Get("fieldManager"))
		applySpecAndMetadata(stored, applied)
		return nil
	})
	switch {
	case apierrors.IsNotFound(err) && applied.UID != "":
		return nil, h.uidConflict(c)
	case apierrors.IsNotFound(err) && c.subresource == "":
		applied.Status = v1alpha1.PodProtectorStatus{}
		if err := h.checkNamespace(c); err != nil {
			return nil, err
		}
		return h.store.Create(c.kind.Resource, applied, h.by.name)
	}
	return updated, err
}

// applyCell applies the finalizers or the conditions of a Cell that exists.
func (h handler) applyCell(c *call, applied *v1alpha1.Cell) (any, error) {
	updated, err := h.store.Update(c.kind.Resource, c.key, "", h.by.name, func(object client.Object) error {
		stored, ok := object.(*v1alpha1.Cell)
		if !ok || applied.UID != "" && applied.UID != stored.UID {
			return h.uidConflict(c)
		}
		applyConditions(&stored.Status.Conditions, applied.Status.Conditions)
		applyFinalizers(stored, applied)
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil, h.uidConflict(c)
	}
	return updated, err
}

func applyConditions(stored *[]metav1.Condition, applied []metav1.Condition) {
	for _, condition := range applied {
		meta.SetStatusCondition(stored, condition)
	}
}

func applyFinalizers(stored, applied client.Object) {
	for _, finalizer := range applied.GetFinalizers() {
		if !slices.Contains(stored.GetFinalizers(), finalizer) {
			stored.SetFinalizers(append(stored.GetFinalizers(), finalizer))
		}
	}
}

// ownership identifies the fields of an object that one field manager has applied.
type ownership struct {
	uid     types.UID
	manager string
}

// appliedAnnotations are the annotations that each field manager has applied.
type appliedAnnotations map[ownership][]string

// removeDropped removes from stored the annotations that a field manager applied earlier and no longer applies.
func (a appliedAnnotations) removeDropped(stored, applied *v1alpha1.PodProtector, manager string) {
	of := ownership{stored.UID, manager}
	for _, key := range a[of] {
		if _, still := applied.Annotations[key]; !still {
			delete(stored.Annotations, key)
		}
	}
	for key := range applied.Annotations {
		if !slices.Contains(a[of], key) {
			a[of] = append(a[of], key)
		}
	}
}

func applySpecAndMetadata(stored, applied *v1alpha1.PodProtector) {
	if stored.Labels == nil && applied.Labels != nil {
		stored.Labels = map[string]string{}
	}
	for key, value := range applied.Labels {
		stored.Labels[key] = value
	}
	for key, value := range applied.Annotations {
		if stored.Annotations == nil {
			stored.Annotations = map[string]string{}
		}
		stored.Annotations[key] = value
	}
	applyFinalizers(stored, applied)
	if applied.Spec.Selector == nil {
		return
	}
	before := stored.Spec
	stored.Spec.Selector = applied.Spec.Selector
	stored.Spec.MinAvailable, stored.Spec.MinReadySeconds = applied.Spec.MinAvailable, applied.Spec.MinReadySeconds
	if !same(&before, &stored.Spec) {
		stored.Generation++
	}
}
