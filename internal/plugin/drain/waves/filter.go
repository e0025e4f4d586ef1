package waves

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Filter are the flags of kubectl drain that decide which pods it removes.
type Filter struct {
	Force, DeleteEmptyDirData, IgnoreDaemonSets bool
}

// Abort says why kubectl drain removes no pod of a node.
type Abort struct {
	Node string `json:"node"`
	// Message is the error of kubectl drain, without the pods.
	Message string   `json:"message"`
	Pods    []string `json:"pods"`
}

func (a *Abort) String() string {
	const most = 5
	named := strings.Join(a.Pods[:min(len(a.Pods), most)], ", ")
	if more := len(a.Pods) - most; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return a.Message + ": " + named
}

// AddAbort adds a pod to the abort of its node with the same message.
func AddAbort(all []Abort, node, message, pod string) []Abort {
	at := slices.IndexFunc(all, func(a Abort) bool { return a.Node == node && a.Message == message })
	if at < 0 {
		return append(all, Abort{Node: node, Message: message, Pods: []string{pod}})
	}
	all[at].Pods = append(all[at].Pods, pod)
	return all
}

// DaemonSetOf returns the name of the DaemonSet that controls a pod, or an empty string.
func DaemonSetOf(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "DaemonSet" || owner.APIVersion != appsv1.SchemeGroupVersion.String() {
		return ""
	}
	return owner.Name
}

// Apply returns why kubectl drain leaves a pod on its node, or why the pod makes it abort. Both are empty if it removes the pod. The order of the
// checks is that of k8s.io/kubectl/pkg/drain, which is not imported because it links all of kubectl. orphaned reports whether the pod's
// DaemonSet does not exist.
func (f Filter) Apply(pod *corev1.Pod, orphaned bool) (leftOut, abort string) {
	finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if set := DaemonSetOf(pod); set != "" && !finished {
		switch {
		case orphaned && !f.Force:
			return "", fmt.Sprintf("daemonsets.apps %q not found (use --force to delete its pods)", set)
		case !orphaned && !f.IgnoreDaemonSets:
			return "", "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"
		case !orphaned:
			return "of DaemonSet " + set, ""
		}
	}
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	local := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil })
	switch {
	case mirror:
		return "a mirror pod, which its kubelet creates", ""
	case finished:
		return "", ""
	case local && !f.DeleteEmptyDirData:
		return "", "cannot delete Pods with local storage (use --delete-emptydir-data to override)"
	case metav1.GetControllerOf(pod) == nil && !f.Force:
		return "", "cannot delete Pods that declare no controller (use --force to override)"
	}
	return "", ""
}
