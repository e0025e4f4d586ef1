package gitops_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fluxManager is the field manager of the kustomize-controller.
const fluxManager = "kustomize-controller"

// fieldSnapshot has the fields of an object that a write by Flux would change.
type fieldSnapshot struct {
	Generation int64
	// Version is the resourceVersion of an object that only Flux writes. Controllers write the status of other objects.
	Version string
	// Owned has the fields that Flux owns according to the API server, and the time of the last change.
	Owned string
}

// fieldSnapshots returns the snapshot of every object that the Kustomizations have applied, according to their inventories.
func (s *Fixture) fieldSnapshots(ctx context.Context) (map[string]fieldSnapshot, error) {
	prints := map[string]fieldSnapshot{}
	for _, layer := range kustomizations {
		objects, err := s.inventory(ctx, layer)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			of := fieldSnapshot{Generation: object.GetGeneration()}
			managers := map[string]bool{}
			for _, entry := range object.GetManagedFields() {
				managers[entry.Manager] = true
				if entry.Manager == fluxManager {
					raw, err := json.Marshal(entry)
					if err != nil {
						return nil, err
					}
					of.Owned += string(raw)
				}
			}
			if len(managers) == 1 {
				of.Version = object.GetResourceVersion()
			}
			prints[fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())] = of
		}
	}
	return prints, nil
}

// inventory reads the objects that a Kustomization has applied.
func (s *Fixture) inventory(ctx context.Context, layer string) ([]*unstructured.Unstructured, error) {
	k, err := s.Kustomization(ctx, systemNamespace, layer)
	if err != nil {
		return nil, err
	}
	entries, _, err := unstructured.NestedSlice(k.Object, "status", "inventory", "entries")
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, entry := range entries {
		id, _, _ := unstructured.NestedString(entry.(map[string]any), "id") // NAMESPACE_NAME_GROUP_KIND
		version, _, _ := unstructured.NestedString(entry.(map[string]any), "v")
		parts := strings.Split(id, "_")
		if len(parts) != 4 {
			return nil, fmt.Errorf("inventory of %s: unknown entry %q", layer, id)
		}
		// Colons in names are written as two underscores. No name here has one.
		object, err := s.Read(ctx, schema.GroupVersionKind{Group: parts[2], Version: version, Kind: parts[3]}, parts[0], parts[1])
		if err != nil {
			return nil, fmt.Errorf("get the objects that %s applied: %w", layer, err)
		}
		objects = append(objects, object)
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("Kustomization %s has applied nothing", layer)
	}
	return objects, nil
}
