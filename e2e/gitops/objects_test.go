package gitops_test

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

// Kinds of others.
var (
	kustomizations  = schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"}
	gitRepositories = schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "GitRepository"}
	certificates    = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}
	definitions     = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
)

// parse reads the objects of a YAML file of several documents.
func parse(raw []byte) ([]*unstructured.Unstructured, error) {
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

// apply makes objects be there as kubectl apply --server-side does; a field that the apiserver does not know is an error.
func (s *Stage) apply(ctx context.Context, objects []*unstructured.Unstructured, options ...client.ApplyOption) error {
	strict := client.WithFieldValidation(s.Client, metav1.FieldValidationStrict)
	for _, object := range objects {
		if err := strict.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), append(options, client.ForceOwnership, client.FieldOwner("test"))...); err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// read gets an object of a kind that our scheme does not know.
func (s *Stage) read(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object, s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
}

// condition gives a condition of an object; an empty one if it has none of that type.
func condition(object *unstructured.Unstructured, kind string) metav1.Condition {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions") // what is no list has no conditions
	for _, item := range list {
		fields, _ := item.(map[string]any)
		text := func(name string) string { value, _, _ := unstructured.NestedString(fields, name); return value }
		if text("type") == kind {
			return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(text("status")), Reason: text("reason"), Message: text("message")}
		}
	}
	return metav1.Condition{Type: kind}
}
