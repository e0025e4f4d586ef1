package apiserver

import (
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// apply is server-side apply as far as the generator uses it: it owns a protector's spec, its labels, annotations
// and finalizer, and one condition of its status, and never gives up a field.
func (s *Store) apply(c *call, by *Link) (any, error) {
	object, err := c.object()
	if err != nil {
		return nil, err
	}
	applied, ok := object.(*v1alpha1.PodProtector)
	if !ok {
		return nil, apierrors.NewBadRequest("only PodProtectors are applied here")
	}
	applied.Namespace = c.key.Namespace
	conflict := apierrors.NewConflict(s.group(c.kind.Resource), c.key.Name, errors.New("the UID is another"))
	updated, err := s.Update(c.kind.Resource, c.key, "", by.name, func(object client.Object) error {
		stored, ok := object.(*v1alpha1.PodProtector)
		if !ok || applied.UID != "" && applied.UID != stored.UID {
			return conflict
		}
		if c.subresource == "status" {
			for _, condition := range applied.Status.Conditions {
				meta.SetStatusCondition(&stored.Status.Conditions, condition)
			}
			return nil
		}
		applyMain(stored, applied)
		return nil
	})
	switch {
	case apierrors.IsNotFound(err) && applied.UID != "":
		return nil, conflict
	case apierrors.IsNotFound(err) && c.subresource == "":
		applied.Status = v1alpha1.PodProtectorStatus{}
		return s.Create(c.kind.Resource, applied, by.name)
	}
	return updated, err
}

func applyMain(stored, applied *v1alpha1.PodProtector) {
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
	for _, finalizer := range applied.Finalizers {
		if !slices.Contains(stored.Finalizers, finalizer) {
			stored.Finalizers = append(stored.Finalizers, finalizer)
		}
	}
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
