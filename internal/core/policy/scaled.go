package policy

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Scaled is the interpreter for all kinds with a scale subresource.
type Scaled struct{}

// Interpret implements Interpreter. It prefers the selector in the spec to the scale's selector. In most kinds the latter comes from
// the status. It is empty until a controller has set it, which may never happen in a core that runs no pods.
//
// It takes no number of pods from the scale, which may count shards or groups (rule 16). The aggregators of the cells see which controller
// states the number of the pods.
func (Scaled) Interpret(source Source) ([]Workload, error) {
	object, ok := source.Object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("object is a %T, want an unstructured object", source.Object)
	}
	if source.Scale == nil {
		return nil, fmt.Errorf("%s has no scale subresource: set templatePath for this kind in the policy", source.Kind.Kind)
	}
	selector, err := selectorOf(object)
	if err != nil {
		return nil, err
	}
	if selector == nil {
		if selector, err = parseSelector(source.Scale.Status.Selector); err != nil {
			return nil, err
		}
	}
	return []Workload{defaultWorkload(object, *selector)}, nil
}

// defaultWorkload returns a workload of a kind without a specific interpreter, of whose numbers nothing shows what they count.
func defaultWorkload(object *unstructured.Unstructured, selector v1alpha1.PodSelector) Workload {
	w := Workload{Selector: selector, Strategy: Strategy{MaxUnavailable: intstr.FromString(defaultMaxUnavailable)}}
	if seconds, isSet, err := unstructured.NestedInt64(object.Object, "spec", "minReadySeconds"); isSet && err == nil {
		w.MinReadySeconds = int32(max(0, min(seconds, 1<<31-1)))
	}
	return w
}

// selectorOf parses spec.selector in the format that Kubernetes kinds with a selector use. It returns nil if there is none.
func selectorOf(object *unstructured.Unstructured) (*v1alpha1.PodSelector, error) {
	fields, isSet, err := unstructured.NestedMap(object.Object, "spec", "selector")
	if err != nil || !isSet {
		return nil, nil //nolint:nilerr // not a label selector: use the selector of the scale
	}
	selector := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, selector); err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return nil, nil
	}
	pods, err := podSelector(selector)
	return &pods, err
}

// parseSelector parses a selector in the syntax of kubectl's --selector. It returns an error for an empty one, which would select
// every pod of the namespace.
func parseSelector(text string) (*v1alpha1.PodSelector, error) {
	if text == "" {
		return nil, errors.New("it has neither a spec.selector nor one in its scale, whose status may not be written yet")
	}
	selector, err := metav1.ParseToLabelSelector(text)
	if err != nil {
		return nil, fmt.Errorf("the selector of its scale: %w", err)
	}
	pods, err := podSelector(selector)
	return &pods, err
}
