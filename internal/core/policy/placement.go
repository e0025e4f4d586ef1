package policy

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// placement is where the workload of a federation's template kind runs, and how large it is there.
type placement struct {
	// sizes are the replicas of each cluster, nil for those of the template. A nil list is of a kind that has no
	// placement: it is as large as its template says.
	sizes []*int32
	// unknown tells that the source does not name its clusters, as when a selector chooses them: only the cells know.
	unknown bool
}

// placementOf reads spec.placement and spec.overrides as KubeFed's kinds have them. A placement of another shape is
// unknown.
func placementOf(object *unstructured.Unstructured) (placement, error) {
	_, other, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "placements")
	fields, there, err := unstructured.NestedMap(object.Object, "spec", "placement")
	if !there && err == nil && !other {
		return placement{}, nil
	}
	clusters, named, err := unstructured.NestedSlice(fields, "clusters")
	if err != nil || !named {
		return placement{unknown: true}, nil //nolint:nilerr // another shape than we know
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

// overriddenSizes are the replicas that spec.overrides gives to clusters.
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
				return nil, fmt.Errorf("spec.overrides[%d].clusterOverrides[%d].value is no number of replicas", i, j)
			}
			replicas := int32(size)
			sizes[name] = &replicas
		}
	}
	return sizes, nil
}
