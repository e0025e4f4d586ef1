package wake

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/succession"
)

// reasonReleased is the reason of the events on released pods and on their successor, in the cell.
const reasonReleased = "ReleasedToSuccessor"

// reportPod creates an event on a released pod.
func (o *orphanReleaser) reportPod(ctx context.Context, cell orphanCluster, pod *corev1.Pod, controller metav1.OwnerReference, named *succession.Object) {
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	successor := successorReference(pod.Namespace, controller, named)
	o.report(ctx, cell, about, &successor, fmt.Sprintf(
		"Breakwater removed the reference to %s %q with UID %s, which was deleted, so that the %s %q that exists now can adopt this pod.",
		controller.Kind, controller.Name, controller.UID, controller.Kind, controller.Name))
}

// reportSuccessor creates an event on the successor of a deleted controller.
func (o *orphanReleaser) reportSuccessor(
	ctx context.Context, cell orphanCluster, namespace string, controller metav1.OwnerReference, named *succession.Object, released int,
) {
	o.report(ctx, cell, successorReference(namespace, controller, named), nil, fmt.Sprintf(
		"Breakwater released %s of the deleted %s %q with UID %s to this one, which can adopt them.",
		printable.Count(released, "pod"), controller.Kind, controller.Name, controller.UID))
}

func successorReference(namespace string, controller metav1.OwnerReference, named *succession.Object) corev1.ObjectReference {
	if named.ClusterScoped {
		namespace = ""
	}
	return corev1.ObjectReference{APIVersion: controller.APIVersion, Kind: controller.Kind, Namespace: namespace, Name: controller.Name, UID: named.UID}
}

// report creates an event in the cell. The release does not depend on it.
func (o *orphanReleaser) report(ctx context.Context, cell orphanCluster, about corev1.ObjectReference, related *corev1.ObjectReference, message string) {
	now := metav1.NewTime(o.now())
	// Events of cluster-scoped objects are in the namespace default.
	namespace := cmp.Or(about.Namespace, metav1.NamespaceDefault)
	_, err := cell.Client.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%x", about.Name, now.UnixNano())},
		InvolvedObject: about, Related: related, Reason: reasonReleased, Message: message, Type: corev1.EventTypeNormal,
		Source: corev1.EventSource{Component: fieldManager}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	if err != nil {
		o.log.V(1).Info("Could not create an event", "kind", about.Kind, "name", about.Name, "reason", err.Error())
	}
}
