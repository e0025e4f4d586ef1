package apiserver

import (
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// apply is server-side apply as far as the controllers use it. The generator owns the fields of a protector's spec that it applies, its labels,
// annotations and finalizer, and one condition of its status. A manager gives up annotations and fields of the spec; see ownership.go. The topology
// controller owns a Cell's finalizer and conditions, and the generator owns a ProtectionPolicy's finalizer.
func (h handler) apply(c *call) (any, error) {
	object, err := c.object()
	if err != nil {
		return nil, err
	}
	switch applied := object.(type) {
	case *v1alpha1.PodProtector:
		return h.applyProtector(c, applied)
	case *v1alpha1.Cell:
		return h.applyExisting(c, applied, func(stored client.Object) {
			if stored, ok := stored.(*v1alpha1.Cell); ok {
				applyConditions(&stored.Status.Conditions, applied.Status.Conditions)
			}
		})
	case *v1alpha1.ProtectionPolicy:
		return h.applyExisting(c, applied, func(client.Object) {})
	}
	return nil, apierrors.NewBadRequest("only PodProtectors, Cells and ProtectionPolicies are applied here")
}

// applyProtector applies a protector. A dry run stores nothing and returns what it would have stored.
func (h handler) applyProtector(c *call, applied *v1alpha1.PodProtector) (any, error) {
	fields, err := appliedFields(c.body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	applied.Namespace = c.key.Namespace
	change := func(object client.Object) error {
		stored, ok := object.(*v1alpha1.PodProtector)
		if !ok || applied.UID != "" && applied.UID != stored.UID {
			return h.uidConflict(c)
		}
		if c.subresource == "status" {
			applyConditions(&stored.Status.Conditions, applied.Status.Conditions)
			return nil
		}
		applyLabels(stored, applied)
		applyFinalizers(stored, applied)
		return fields.applyTo(stored, c.query.Get("fieldManager"))
	}
	if c.query.Get("dryRun") != "" {
		return h.store.tryUpdate(c.kind.Resource, c.key, applied.ResourceVersion, change)
	}
	updated, err := h.store.Update(c.kind.Resource, c.key, applied.ResourceVersion, h.by.name, change)
	switch {
	case apierrors.IsNotFound(err) && applied.UID != "":
		return nil, h.uidConflict(c)
	case apierrors.IsNotFound(err) && c.subresource == "":
		if err := h.checkNamespace(c); err != nil {
			return nil, err
		}
		created := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: applied.Namespace, Name: applied.Name}}
		if err := change(created); err != nil {
			return nil, err
		}
		return h.store.Create(c.kind.Resource, created, h.by.name)
	}
	return updated, err
}

// applyExisting applies the finalizers of an object that exists, and what change applies.
func (h handler) applyExisting(c *call, applied client.Object, change func(stored client.Object)) (any, error) {
	updated, err := h.store.Update(c.kind.Resource, c.key, "", h.by.name, func(stored client.Object) error {
		if applied.GetUID() != "" && applied.GetUID() != stored.GetUID() {
			return h.uidConflict(c)
		}
		change(stored)
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

func applyLabels(stored, applied *v1alpha1.PodProtector) {
	if stored.Labels == nil && applied.Labels != nil {
		stored.Labels = map[string]string{}
	}
	maps.Copy(stored.Labels, applied.Labels)
}
