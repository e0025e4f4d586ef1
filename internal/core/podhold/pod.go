package podhold

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pod is what the rules need to know of a pod.
type Pod struct {
	types.NamespacedName
	UID types.UID
	// Node is the name of the node to which the pod is bound.
	Node string
	// Owner is the controller of the pod; the zero value means none.
	Owner Owner
	// Deleting reports that the pod has a deletionTimestamp.
	Deleting bool
	// Ended reports that no container of the pod will run again.
	Ended bool
	// Started reports that a container of the pod was started.
	Started bool
	// Mirror reports that the pod mirrors a static pod of the node, which the kubelet runs and registers by itself.
	Mirror bool
	// Containers identifies what the pod runs: name and image of all containers, in order.
	Containers []string
}

// Owner is the controller of a pod.
type Owner struct {
	Kind, Name string
	UID        types.UID
}

// PodOf returns what the rules need to know of a pod.
func PodOf(p *corev1.Pod) Pod {
	pod := Pod{
		NamespacedName: types.NamespacedName{Namespace: p.Namespace, Name: p.Name},
		UID:            p.UID,
		Node:           p.Spec.NodeName,
		Deleting:       p.DeletionTimestamp != nil,
		Ended:          p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Started:        hasStarted(p),
		Mirror:         p.Annotations[corev1.MirrorPodAnnotationKey] != "",
	}
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		pod.Owner = Owner{Kind: owner.Kind, Name: owner.Name, UID: owner.UID}
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		pod.Containers = append(pod.Containers, c.Name+"="+c.Image)
	}
	return pod
}

func hasStarted(p *corev1.Pod) bool {
	started := func(s corev1.ContainerStatus) bool {
		return s.ContainerID != "" || s.State.Running != nil || s.State.Terminated != nil
	}
	return slices.ContainsFunc(p.Status.InitContainerStatuses, started) || slices.ContainsFunc(p.Status.ContainerStatuses, started)
}

// CanRegister reports whether p can become the registration of held (rule N7).
func CanRegister(p, held Pod) bool {
	return p.NamespacedName == held.NamespacedName && !p.Started && !p.Deleting && !p.Ended && !p.Mirror &&
		p.Owner.Kind == held.Owner.Kind && p.Owner.Name == held.Owner.Name && slices.Equal(p.Containers, held.Containers)
}
