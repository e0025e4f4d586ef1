package convert

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// workload is the workload that a targetRef names, independent of the API version.
type workload struct {
	schema.GroupKind
	id
}

func workloadOf(namespace string, ref *v1alpha1.TargetRef) workload {
	return workload{schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind(), id{namespace, ref.Name}}
}

// TargetOf returns the workload that a source targets, if any. If that workload is among the sources, Convert can find other protectors
// that cover its pods.
func TargetOf(source Source) (v1alpha1.TargetRef, bool) {
	var ref v1alpha1.TargetRef
	spec, _ := source.Object.Object["spec"].(map[string]any)
	fields, found := spec["targetRef"].(map[string]any)
	if !found || source.Object.GroupVersionKind().GroupKind() != unavailableBudgetKind() {
		return ref, false
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &ref)
	return ref, err == nil && targetRefProblem(&ref) == ""
}

// targets returns the pod selectors of the workloads among the sources.
func targets(sources []Source) map[workload]*v1alpha1.Target {
	found := map[workload]*v1alpha1.Target{}
	for _, source := range sources {
		if text, ok := workloadSelector(source); ok {
			key := workload{source.Object.GroupVersionKind().GroupKind(), id{source.Object.GetNamespace(), source.Object.GetName()}}
			found[key] = &v1alpha1.Target{Selector: text}
		}
	}
	return found
}

// workloadSelector reads spec.selector, which is a label selector, or plain labels in a ReplicationController.
func workloadSelector(source Source) (string, bool) {
	spec, _ := source.Object.Object["spec"].(map[string]any)
	fields, found := spec["selector"].(map[string]any)
	if !found {
		return "", false
	}
	var selector metav1.LabelSelector
	if source.Object.GetKind() == "ReplicationController" {
		fields = map[string]any{"matchLabels": fields}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &selector); err != nil {
		return "", false
	}
	parsed, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil || parsed.Empty() {
		return "", false
	}
	return parsed.String(), true
}
