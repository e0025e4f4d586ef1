package convert

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Manifest returns the protector as a user would write it, without empty fields.
func (p *Protector) Manifest() (map[string]any, error) {
	manifest, err := manifestOf(&p.PodProtector)
	if err != nil {
		return nil, fmt.Errorf("write PodProtector %s: %w", p.Name, err)
	}
	if history, _, _ := unstructured.NestedMap(manifest, "spec", "admissionHistory"); len(history) == 0 {
		unstructured.RemoveNestedField(manifest, "spec", "admissionHistory")
	}
	return manifest, nil
}

// Manifest returns the policy as a user would write it.
func (p *Policy) Manifest() (map[string]any, error) {
	manifest, err := manifestOf(p.Object)
	if err != nil {
		return nil, fmt.Errorf("write scheduling policy %s: %w", p.Object.GetName(), err)
	}
	return manifest, nil
}

func manifestOf(object any) (map[string]any, error) {
	manifest, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	delete(manifest, "status")
	unstructured.RemoveNestedField(manifest, "metadata", "creationTimestamp")
	return manifest, nil
}
