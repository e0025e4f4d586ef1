package convert

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Manifest is the protector as a user would write it: what was not asked for is not there.
func (p *Protector) Manifest() (map[string]any, error) {
	manifest, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p.PodProtector)
	if err != nil {
		return nil, fmt.Errorf("write PodProtector %s: %w", p.Name, err)
	}
	delete(manifest, "status")
	unstructured.RemoveNestedField(manifest, "metadata", "creationTimestamp")
	if history, _, _ := unstructured.NestedMap(manifest, "spec", "admissionHistory"); len(history) == 0 {
		unstructured.RemoveNestedField(manifest, "spec", "admissionHistory")
	}
	return manifest, nil
}
