package policy

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Template is the interpreter of kinds whose objects hold whole workloads, as a federation's template kinds do: one at
// the path, or a list of them there, each of which has a protector of its own, named after it.
type Template struct {
	// Path leads to the workloads, as spec.template.
	Path string
}

// Interpret implements Interpreter.
func (t Template) Interpret(source Source) ([]Workload, error) {
	object, ok := source.Object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("a %T is not read as a template", source.Object)
	}
	at, there, err := unstructured.NestedFieldNoCopy(object.Object, strings.Split(t.Path, ".")...)
	switch {
	case err != nil:
		return nil, fmt.Errorf("its policy's templatePath %s: %w", t.Path, err)
	case !there:
		return nil, fmt.Errorf("%s is missing, which its policy's templatePath names", t.Path)
	}
	placement, err := placementOf(object)
	if err != nil {
		return nil, err
	}
	switch found := at.(type) {
	case map[string]any:
		w, err := t.workload(source.Kind, found, placement)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Path, err)
		}
		return []Workload{w}, nil
	case []any:
		return t.parts(source.Kind, found, placement)
	default:
		return nil, fmt.Errorf("%s is neither a workload nor a list of workloads", t.Path)
	}
}

// parts reads a list of workloads. Each needs a name of its own: a place in the list is no name, since it changes when
// another is taken out.
func (t Template) parts(kind schema.GroupVersionKind, list []any, placement placement) ([]Workload, error) {
	if len(list) == 0 {
		// More likely an accident than somebody's wish to give up all of it.
		return nil, fmt.Errorf("%s is empty: delete the %s if it is to have no workloads", t.Path, kind.Kind)
	}
	workloads, names := make([]Workload, 0, len(list)), map[string]bool{}
	for i, each := range list {
		fields, ok := each.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s[%d] is no workload", t.Path, i)
		}
		name, _, _ := unstructured.NestedString(fields, "metadata", "name")
		if name == "" || names[name] {
			return nil, fmt.Errorf("%s[%d].metadata.name is missing, or is another's: each workload of a list needs one of its own", t.Path, i)
		}
		names[name] = true
		w, err := t.workload(kind, fields, placement)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", t.Path, i, err)
		}
		w.Part = name
		workloads = append(workloads, w)
	}
	return workloads, nil
}

// workload reads one workload for all cells that it is placed in: each has the size, and so the strategy, that it has
// there.
func (t Template) workload(kind schema.GroupVersionKind, fields map[string]any, placement placement) (Workload, error) {
	if placement.unknown {
		w, err := interpretTemplate(kind, fields, nil)
		w.Replicas = nil
		return w, err
	}
	if placement.sizes == nil {
		return interpretTemplate(kind, fields, nil)
	}
	whole, total := Workload{}, int32(0)
	if len(placement.sizes) == 0 {
		none := int32(0)
		return interpretTemplate(kind, fields, &none)
	}
	for i, size := range placement.sizes {
		w, err := interpretTemplate(kind, fields, size)
		if err != nil {
			return Workload{}, err
		}
		if w.Replicas == nil {
			return w, nil // the template itself does not tell
		}
		minAvailable := quota.Add(whole.Strategy.MinAvailable, w.Strategy.MinAvailable)
		if i == 0 {
			whole = w
		}
		whole.Strategy.MinAvailable = minAvailable
		total = quota.Add(total, *w.Replicas)
	}
	whole.Replicas = &total
	return whole, nil
}

// interpretTemplate reads a workload as if it were an object, of the given size if there is one. What it is, it says itself;
// otherwise the name of its source's kind does, as FederatedDeployment.
func interpretTemplate(kind schema.GroupVersionKind, fields map[string]any, replicas *int32) (Workload, error) {
	object := (&unstructured.Unstructured{Object: fields}).DeepCopy()
	if replicas != nil {
		if err := unstructured.SetNestedField(object.Object, int64(*replicas), "spec", "replicas"); err != nil {
			return Workload{}, err
		}
	}
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
	wanted, there, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if err != nil {
		return Workload{}, err
	}
	if !there {
		return plainWorkload(object, *selector, nil), nil
	}
	size := int32(max(0, min(wanted, 1<<31-1)))
	return plainWorkload(object, *selector, &size), nil
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
