package shape

import (
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Owned returns the fields that any of the managers has applied; nil if there are none.
func Owned(entries []metav1.ManagedFieldsEntry, managers ...string) *fieldpath.Set {
	var all *fieldpath.Set
	for _, entry := range entries {
		if !slices.Contains(managers, entry.Manager) || entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		owned := &fieldpath.Set{}
		if err := owned.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			continue
		}
		if all != nil {
			owned = all.Union(owned)
		}
		all = owned
	}
	return all
}

// Below returns the part of a set below a field; nil if there is none.
func Below(owned *fieldpath.Set, name string) *fieldpath.Set {
	return below(owned, fieldpath.PathElement{FieldName: &name})
}

func below(owned *fieldpath.Set, at fieldpath.PathElement) *fieldpath.Set {
	if owned == nil {
		return nil
	}
	set, ok := owned.Children.Get(at)
	if !ok {
		return nil
	}
	return set
}

func ownsField(owned *fieldpath.Set, name string) bool {
	return owned != nil && (owned.Members.Has(fieldpath.PathElement{FieldName: &name}) || Below(owned, name) != nil)
}

// isUnchangedDefault reports whether the API server set the value of the field to the default that Terraform sets as well. An earlier version of the
// provider, which did not know the field, did not set it.
func (f *Field) isUnchangedDefault(live any) bool {
	return f.Default != nil && !f.UnownedIfUnset && reflect.DeepEqual(f.withDefaults(f.Default), live)
}

// Show returns what Terraform shows of an object in a cluster: the current values of the fields that Terraform set before, of those that it
// owns, and defaults that it sets as well. Other values of other managers and of the API server are neither Terraform's to change, nor drift.
func (f *Field) Show(before, live any, owned *fieldpath.Set) any {
	if before == nil && owned == nil {
		return nil
	}
	return f.show(before, live, owned)
}

// show is Show for a field that Terraform set before or owns.
func (f *Field) show(before, live any, owned *fieldpath.Set) any {
	switch {
	case live == nil:
		return nil
	case f.isSelector() && selectsEverything(before) && selectsEverything(live):
		return before // clients drop empty requirements when they update an object
	case f.Kind == Object && !f.Atomic:
		had, _ := before.(map[string]any)
		shown := map[string]any{}
		for name, now := range asMap(live) {
			c := f.Child(name)
			if c == nil || had[name] == nil && !ownsField(owned, name) && !c.isUnchangedDefault(now) {
				continue
			}
			if v := c.show(had[name], now, Below(owned, name)); v != nil {
				shown[name] = v
			}
		}
		return shown
	case f.Kind == Map && !f.Atomic:
		had, _ := before.(map[string]any)
		return showKeys(had, asMap(live), owned)
	case f.Kind == Set && !f.Atomic:
		return showElements(asList(before), asList(live), owned)
	case f.Kind == List && len(f.keys) > 0:
		return f.showKeyed(asList(before), asList(live), owned)
	default:
		return live
	}
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func asList(v any) []any {
	l, _ := v.([]any)
	return l
}

// showKeys is Show for the keys of a map, each of which has its own owners.
func showKeys(had, live map[string]any, owned *fieldpath.Set) any {
	shown := map[string]any{}
	for key, now := range live {
		if _, before := had[key]; before || ownsField(owned, key) {
			shown[key] = now
		}
	}
	if len(shown) == 0 && had == nil {
		return nil
	}
	return shown
}

// ShowKeys is Show for labels and annotations.
func ShowKeys(had map[string]any, live map[string]string, owned *fieldpath.Set) map[string]any {
	now := make(map[string]any, len(live))
	for key, v := range live {
		now[key] = v
	}
	shown, _ := showKeys(had, now, owned).(map[string]any)
	return shown
}

// Adopt returns what Terraform shows of an object that it has not created: everything except API server defaults in fields that
// the configuration need not mention.
func (f *Field) Adopt(live any) any {
	object, ok := live.(map[string]any)
	switch {
	case f.Kind == Object && !ok:
		return nil
	case f.Kind != Object || f.Atomic && len(object) > 0:
		return live
	}
	shown := map[string]any{}
	for name, now := range object {
		c := f.Child(name)
		if c == nil || c.UnownedIfUnset && c.Default != nil && reflect.DeepEqual(c.Default, now) {
			continue
		}
		if v := c.Adopt(now); v != nil {
			shown[name] = v
		}
	}
	// Empty is what the absence of the field means as well, except for a selector or a field that has no fields.
	if len(shown) == 0 && len(f.Fields) > 0 && !f.isSelector() {
		return nil
	}
	return shown
}

// Owns reports whether a manager has applied the field at the path of names.
func Owns(entries []metav1.ManagedFieldsEntry, manager string, names ...string) bool {
	owned := Owned(entries, manager)
	for _, name := range names {
		if !ownsField(owned, name) {
			return false
		}
		owned = Below(owned, name)
	}
	return true
}

// Leftovers returns the values that were set and are no longer wanted, but are still in the object because other managers set them
// too. It returns the Terraform names of fields, and of elements with their own owners. It leaves out the API server's defaults.
func (f *Field) Leftovers(had, wants, live any) []string {
	var all []string
	for _, c := range f.Fields {
		for _, left := range c.leftovers(asMap(had)[c.JSON], asMap(wants)[c.JSON], asMap(live)[c.JSON]) {
			all = append(all, c.Name+left)
		}
	}
	return all
}

// leftovers is Leftovers for any kind of field, but returns only what follows the field's name. That is empty for the field itself.
func (f *Field) leftovers(had, wants, live any) []string {
	switch {
	case had == nil || live == nil || wants == nil && f.Default != nil:
		return nil
	case f.Kind == Set && !f.Atomic:
		return leftoverElements(asList(had), asList(wants), asList(live))
	case f.Kind == List && len(f.keys) > 0:
		return f.leftoverKeyed(asList(had), asList(wants), asList(live))
	case wants == nil:
		return []string{""}
	case f.Kind == Object && !f.Atomic:
		all := f.Leftovers(had, wants, live)
		for i, left := range all {
			all[i] = "." + left
		}
		return all
	default:
		return nil
	}
}

func leftoverElements(had, wants, live []any) []string {
	var all []string
	for _, element := range had {
		if !contains(wants, element) && contains(live, element) {
			all = append(all, fmt.Sprintf("[%q]", element))
		}
	}
	return all
}

func (f *Field) leftoverKeyed(had, wants, live []any) []string {
	var all []string
	for _, element := range had {
		wanted, now := f.keys.find(wants, element), f.keys.find(live, element)
		for _, left := range f.Element.leftovers(element, wanted, now) {
			all = append(all, "["+f.keys.text(element)+"]"+left)
		}
	}
	return all
}
