// Package succession decides which pods are released to the successor of their controller.
//
// A controller that is deleted and created again has another UID. Its new object cannot adopt the pods of the old one, because they name the
// old UID, and cannot create pods whose names exist, such as those of a StatefulSet. While the floor denies the removal of the old pods, the
// workload never recovers. Without the reference to the controller that no longer exists, the new object adopts the pods.
//
// It is pure.
package succession

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Decision is whether a pod is released to the successor of its controller. Each decision other than Release is the reason why it is not.
type Decision string

const (
	// Release means that the controller no longer exists, and that its successor selects the pod.
	Release Decision = "Release"
	// PodEnded means that the pod does not exist, is being deleted, or has finished.
	PodEnded Decision = "PodEnded"
	// NoController means that the pod has no controller.
	NoController Decision = "NoController"
	// ControllerExists means that the controller exists.
	ControllerExists Decision = "ControllerExists"
	// ControllerTerminating means that the controller is being deleted, for example in the foreground. It still owns the pod.
	ControllerTerminating Decision = "ControllerTerminating"
	// NoSuccessor means that no object has the kind and the name of the controller, which no longer exists.
	NoSuccessor Decision = "NoSuccessor"
	// SuccessorTerminating means that the object with the kind and the name of the controller is being deleted as well.
	SuccessorTerminating Decision = "SuccessorTerminating"
	// NoSelector means that the successor does not say which pods it selects.
	NoSelector Decision = "NoSelector"
	// NotSelected means that the successor does not select the pod.
	NotSelected Decision = "NotSelected"
)

// Object is the object that has the group, the kind and the name of a pod's controller, according to a live read of the API server.
type Object struct {
	UID         types.UID
	Terminating bool
	// ClusterScoped reports whether the kind is cluster-scoped.
	ClusterScoped bool
	// Selector selects its pods. It is nil if the object does not state a selector.
	Selector labels.Selector
}

// Decide decides on a pod. named is the object that has the group, the kind and the name of its controller, at the scope of that kind, or nil if
// there is none. Both must be from live reads (rule 15): a review, or a cache, can show an owner that exists as deleted.
//
// One object at a time has a name, so an object with another UID proves that the controller no longer exists. A terminating controller exists
// until its finalizers are removed.
func Decide(pod *corev1.Pod, named *Object) Decision {
	if pod == nil || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return PodEnded
	}
	controller := metav1.GetControllerOfNoCopy(pod)
	switch {
	case controller == nil:
		return NoController
	case named == nil:
		return NoSuccessor
	case named.UID == controller.UID && named.Terminating:
		return ControllerTerminating
	case named.UID == controller.UID:
		return ControllerExists
	case named.Terminating:
		return SuccessorTerminating
	case named.Selector == nil || named.Selector.Empty(): // an empty selector selects every pod, which no controller means
		return NoSelector
	case !named.Selector.Matches(labels.Set(pod.Labels)):
		return NotSelected
	}
	return Release
}

// IsOrphan reports whether the controller of the pod no longer exists.
func (d Decision) IsOrphan() bool {
	switch d {
	case Release, NoSuccessor, SuccessorTerminating, NoSelector, NotSelected:
		return true
	case PodEnded, NoController, ControllerExists, ControllerTerminating:
	}
	return false
}

// MayChange reports whether the pod can still be released later: it waits for the end of its controller, or for a successor that selects it.
func (d Decision) MayChange() bool { return d != Release && d.IsOrphan() || d == ControllerTerminating }

// Describe describes the decision on a pod with this controller, for users.
func (d Decision) Describe(controller metav1.OwnerReference) string {
	name := fmt.Sprintf("%s %q", controller.Kind, controller.Name)
	switch d {
	case Release:
		return "another " + name + " exists and selects it: it can be released"
	case PodEnded:
		return "it ends anyway"
	case NoController:
		return "it has no controller: one that selects it adopts it"
	case ControllerExists:
		return name + " exists"
	case ControllerTerminating:
		return name + " is being deleted, and still owns it: end the deletion by removing its finalizers, and create it again"
	case NoSuccessor:
		return name + " was deleted: create it again with the same name"
	case SuccessorTerminating:
		return name + " was deleted, and the one that replaced it is being deleted, too: create it again"
	case NoSelector:
		return "another " + name + " exists, but does not state a selector of its pods: only its controller knows how to adopt it"
	case NotSelected:
		return "another " + name + " exists, but does not select it: its selector must match the labels of the pod"
	}
	return string(d)
}
