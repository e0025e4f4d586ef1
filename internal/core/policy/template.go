package policy

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Template is the interpreter for kinds whose objects contain whole workloads, like a federation's template kinds. The path leads to
// one workload or to a list. Each workload of a list has a protector of its own, named after it.
type Template struct {
	// Path is the path of the workloads in the object, as spec.template.
	Path string
}

// Interpret implements Interpreter.
func (t Template) Interpret(source Source) ([]Workload, error) {
	object, ok := source.Object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("object is a %T, want an unstructured object", source.Object)
	}
	at, isSet, err := unstructured.NestedFieldNoCopy(object.Object, strings.Split(t.Path, ".")...)
	switch {
	case err != nil:
		return nil, fmt.Errorf("its policy's templatePath %s: %w", t.Path, err)
	case !isSet:
		return nil, fmt.Errorf("%s is missing: it is the templatePath of its policy", t.Path)
	}
	switch found := at.(type) {
	case map[string]any:
		w, err := t.workload(source, found)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Path, err)
		}
		return []Workload{w}, nil
	case []any:
		return t.parts(source, found)
	default:
		return nil, fmt.Errorf("%s is neither a workload nor a list of workloads", t.Path)
	}
}

// parts interprets a list of workloads. Each needs a unique name. An index does not identify a workload, because it changes when
// another element is removed.
func (t Template) parts(source Source, list []any) ([]Workload, error) {
	if len(list) == 0 {
		// This is more likely an accident than the intent to remove all workloads.
		return nil, fmt.Errorf("%s is empty: delete the %s if it should have no workloads", t.Path, source.Kind.Kind)
	}
	workloads, names := make([]Workload, 0, len(list)), map[string]bool{}
	for i, each := range list {
		fields, ok := each.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s[%d] is not a workload", t.Path, i)
		}
		name, _, _ := unstructured.NestedString(fields, "metadata", "name")
		if name == "" || names[name] {
			return nil, fmt.Errorf("%s[%d].metadata.name is missing or not unique: each workload of a list needs its own name", t.Path, i)
		}
		names[name] = true
		w, err := t.workload(source, fields)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", t.Path, i, err)
		}
		w.Part = name
		workloads = append(workloads, w)
	}
	return workloads, nil
}

// workload interprets a workload as if it were an object. The workload's own kind determines the interpreter. Without one, the kind of its
// source does, as FederatedDeployment.
func (t Template) workload(source Source, fields map[string]any) (Workload, error) {
	w, err := interpretTemplate(source.Kind, &unstructured.Unstructured{Object: fields})
	if isPlaced(source.Object) {
		w.Replicas = nil // the template has the size in one cluster
	}
	return w, err
}

// isPlaced reports whether a source says in which clusters its workload runs. Then only the cells have the sizes.
func isPlaced(source metav1.Object) bool {
	object, _ := source.(*unstructured.Unstructured)
	_, one, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "placement")
	_, several, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "placements")
	return one || several
}

func interpretTemplate(kind schema.GroupVersionKind, object *unstructured.Unstructured) (Workload, error) {
	of := object.GetKind()
	if of == "" {
		of = strings.TrimPrefix(kind.Kind, "Federated")
	}
	switch of {
	case "Deployment":
		return interpretAs(object, &appsv1.Deployment{}, Deployments{})
	case "StatefulSet":
		return interpretAs(object, &appsv1.StatefulSet{}, StatefulSets{})
	case "ReplicaSet":
		return interpretAs(object, &appsv1.ReplicaSet{}, ReplicaSets{})
	}
	selector, err := selectorOf(object)
	if err != nil {
		return Workload{}, err
	}
	if selector == nil {
		return Workload{}, fmt.Errorf("spec.selector is missing")
	}
	return defaultWorkload(object, *selector), nil
}

func interpretAs(object *unstructured.Unstructured, typed metav1.Object, as Interpreter) (Workload, error) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return Workload{}, err
	}
	workloads, err := as.Interpret(Source{Object: typed})
	if err != nil {
		return Workload{}, err
	}
	return workloads[0], nil
}
