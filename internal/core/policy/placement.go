package policy

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// placement describes in which clusters a federation places the workload of a template kind, and its size there.
type placement struct {
	// sizes has the replicas in each cluster; nil elements have the template's size. A nil list means that the kind has no placement
	// and the workload has the size in its template.
	sizes []*int32
	// unknown reports that the source does not name its clusters, for instance because a selector chooses them. Only the cells then
	// have the size.
	unknown bool
}

// placementOf parses spec.placement and spec.overrides as KubeFed's kinds have them. A placement in another format is unknown.
func placementOf(object *unstructured.Unstructured) (placement, error) {
	_, other, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "placements")
	fields, exists, err := unstructured.NestedMap(object.Object, "spec", "placement")
	if !exists && err == nil && !other {
		return placement{}, nil
	}
	clusters, named, err := unstructured.NestedSlice(fields, "clusters")
	if err != nil || !named {
		return placement{unknown: true}, nil //nolint:nilerr // unsupported format
	}
	overridden, err := overriddenSizes(object)
	if err != nil {
		return placement{}, err
	}
	placed := placement{sizes: []*int32{}}
	for i := range clusters {
		cluster, _ := clusters[i].(map[string]any)
		name, _, _ := unstructured.NestedString(cluster, "name")
		if name == "" {
			return placement{}, fmt.Errorf("spec.placement.clusters[%d].name is missing", i)
		}
		placed.sizes = append(placed.sizes, overridden[name])
	}
	return placed, nil
}

// overriddenSizes returns the replicas per cluster that spec.overrides sets.
func overriddenSizes(object *unstructured.Unstructured) (map[string]*int32, error) {
	overrides, _, err := unstructured.NestedSlice(object.Object, "spec", "overrides")
	if err != nil {
		return nil, err
	}
	sizes := map[string]*int32{}
	for i := range overrides {
		override, _ := overrides[i].(map[string]any)
		name, _, _ := unstructured.NestedString(override, "clusterName")
		changes, _, _ := unstructured.NestedSlice(override, "clusterOverrides")
		for j := range changes {
			change, _ := changes[j].(map[string]any)
			if path, _, _ := unstructured.NestedString(change, "path"); path != "/spec/replicas" {
				continue
			}
			size, is := change["value"].(int64)
			if !is || size < 0 || size > 1<<31-1 {
				return nil, fmt.Errorf("spec.overrides[%d].clusterOverrides[%d].value is not a number of replicas", i, j)
			}
			replicas := int32(size)
			sizes[name] = &replicas
		}
	}
	return sizes, nil
}
