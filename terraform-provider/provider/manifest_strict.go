package provider

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// checkManifest returns an error for a manifest of Breakwater's API that has fields, or a kind, that this version of the API does not have.
// Other manifests are valid.
func checkManifest(kinds []*kind, manifest map[string]any) error {
	version, name := manifest["apiVersion"], manifest["kind"]
	ours := false
	for _, k := range kinds {
		if version != k.Kind.GroupVersion().String() {
			continue
		}
		if ours = true; name != k.Kind.Kind {
			continue
		}
		unknown, err := k.UnknownFields(manifest)
		if err == nil && len(unknown) > 0 {
			err = fmt.Errorf("a %s has no field %s", name, strings.Join(unknown, ", "))
		}
		return err
	}
	if ours {
		return fmt.Errorf("%s has no kind %s", version, name)
	}
	return nil
}

// checkElements returns an error for an element of a map or list that is null, in a manifest of Breakwater's API. An object without the element
// means something else; a field that is null is absent.
func checkElements(kinds []*kind, manifest map[string]any) error {
	i := slices.IndexFunc(kinds, func(k *kind) bool {
		return manifest["apiVersion"] == k.Kind.GroupVersion().String() && manifest["kind"] == k.Kind.Kind
	})
	if i < 0 {
		return nil
	}
	metadata := &shape.Field{Kind: shape.Object, Fields: metadataFields}
	at := cmp.Or(metadata.NullElement(shape.Path{"metadata"}, manifest["metadata"]).String(),
		kinds[i].Spec.NullElement(shape.Path{"spec"}, manifest["spec"]).String())
	if at == "" {
		return nil
	}
	return fmt.Errorf("%s is null: set a value, or leave it out", at)
}
