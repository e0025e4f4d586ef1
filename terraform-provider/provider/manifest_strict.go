package provider

import (
	"fmt"
	"strings"
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
