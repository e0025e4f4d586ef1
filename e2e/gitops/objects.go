package gitops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Parse returns the objects in the documents of a YAML file.
func Parse(raw []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Apply applies objects as kubectl apply --server-side does. A field that the API server does not know is an error.
func (s *ProcessHost) Apply(ctx context.Context, objects []*unstructured.Unstructured, options ...client.ApplyOption) error {
	strict := client.WithFieldValidation(s.Client, metav1.FieldValidationStrict)
	for _, object := range objects {
		applied := client.ApplyConfigurationFromUnstructured(object.DeepCopy())
		if err := strict.Apply(ctx, applied, append(options, client.ForceOwnership, client.FieldOwner("test"))...); err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// Read reads an object of a kind that the client's scheme does not have.
func (s *ProcessHost) Read(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object, s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
}

// Condition returns a condition of an object, or an empty one of that type if the object has none.
func Condition(object *unstructured.Unstructured, kind string) metav1.Condition {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions") // a field that is not a list has no conditions
	for _, item := range list {
		fields, _ := item.(map[string]any)
		text := func(name string) string { value, _, _ := unstructured.NestedString(fields, name); return value }
		if text("type") == kind {
			return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(text("status")), Reason: text("reason"), Message: text("message")}
		}
	}
	return metav1.Condition{Type: kind}
}
