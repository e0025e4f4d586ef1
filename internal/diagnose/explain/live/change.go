package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// dryRunChange sends a dry run of a change that restarts a container of a pod: another image, or less of a resource whose resizePolicy is
// RestartContainer.
func (c *Cluster) dryRunChange(ctx context.Context, namespace, name string, operation v1alpha1.Operation) error {
	pods := c.Client.CoreV1().Pods(namespace)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return errors.New("read the pod for the dry run: " + err.Error()) // no %w: this is no answer to the removal
	}
	first := &pod.Spec.Containers[0]
	container, subresources := map[string]any{"name": first.Name, "image": first.Image + "-explained"}, []string(nil)
	if operation == v1alpha1.OperationResize {
		if container, subresources = shrunkResources(pod), []string{"resize"}; container == nil {
			return fmt.Errorf("no resize restarts a container of pod %s/%s: none has a resizePolicy RestartContainer for a resource that it requests", namespace, name)
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "spec": map[string]any{"containers": []any{container}}})
	if err != nil {
		return err
	}
	_, err = pods.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
	return err
}

// dryRunUnlabel sends a dry run of a change that removes all labels of a pod.
func (c *Cluster) dryRunUnlabel(ctx context.Context, namespace, name string) error {
	patch := []byte(`{"metadata":{"labels":null}}`)
	_, err := c.Client.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// shrunkResources is a patch of the first container that restarts when a resource is resized. It halves that resource, because a smaller amount
// always fits. It returns nil if there is no such container. Requests and limits shrink together, since the QoS class of a pod is
// immutable.
func shrunkResources(pod *corev1.Pod) map[string]any {
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		for _, policy := range container.ResizePolicy {
			amounts := map[string]any{}
			for field, list := range map[string]corev1.ResourceList{"requests": container.Resources.Requests, "limits": container.Resources.Limits} {
				if had, ok := list[policy.ResourceName]; ok && had.MilliValue() > 1 {
					amounts[field] = corev1.ResourceList{policy.ResourceName: half(policy.ResourceName, had)}
				}
			}
			if policy.RestartPolicy == corev1.RestartContainer && len(amounts) > 0 {
				return map[string]any{"name": container.Name, "resources": amounts}
			}
		}
	}
	return nil
}

// half halves a quantity. The result is whole except for CPU: other resources have no fractions.
func half(name corev1.ResourceName, of resource.Quantity) resource.Quantity {
	if name == corev1.ResourceCPU {
		return *resource.NewMilliQuantity(of.MilliValue()/2, of.Format)
	}
	return *resource.NewQuantity((of.Value()+1)/2, of.Format)
}
