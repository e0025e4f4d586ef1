package succession

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// PatchType is the type of the patch of Patch.
const PatchType = types.StrategicMergePatchType

// Patch returns the patch that removes the reference to its controller from a pod, and nothing else. It fails with a conflict if the pod has
// changed since it was read, or another pod has its name.
func Patch(pod *corev1.Pod) ([]byte, error) {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil || pod.UID == "" || pod.ResourceVersion == "" {
		return nil, fmt.Errorf("pod %s/%s was not read from an API server, or has no controller", pod.Namespace, pod.Name)
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion,
		"ownerReferences": []map[string]any{{"$patch": "delete", "uid": controller.UID}},
	}})
}

// ParseSelector returns the selector of an object's spec.selector: a label selector or, as in a ReplicationController, labels. It returns nil
// if the value is neither.
func ParseSelector(value map[string]any) labels.Selector {
	equal, isEqual := labels.Set{}, true
	for key, of := range value {
		text, isText := of.(string)
		equal[key], isEqual = text, isEqual && isText
	}
	if isEqual && len(value) > 0 {
		selector, err := equal.AsValidatedSelector()
		if err != nil {
			return nil
		}
		return selector
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	var parsed metav1.LabelSelector
	if json.Unmarshal(raw, &parsed) != nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(&parsed)
	if err != nil {
		return nil
	}
	return selector
}
