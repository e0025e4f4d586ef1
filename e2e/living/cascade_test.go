package living_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestDeletedNamespace(t *testing.T) {
	claim(t, "a terminating namespace keeps its protected pods, reports why, and is deleted when its floor is released", func(l *fixture) {
		createDeployment(l, here(l), "here", 4)
		createDeployment(l, elsewhere(l), "elsewhere", 2)
		k := startFloorWatch(l, 6, 6)
		namespaces := here(l).Client.CoreV1().Namespaces()
		l.Must(namespaces.Delete(l.Context(), l.Namespace, metav1.DeleteOptions{}))
		l.Eventually(func() string {
			n, err := namespaces.Get(l.Context(), l.Namespace, metav1.GetOptions{})
			l.Must(err)
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NamespaceDeletionContentFailure && c.Status == corev1.ConditionTrue && strings.Contains(c.Message, denialText) {
					return ""
				}
			}
			return fmt.Sprintf("the namespace does not report why it is not deleted: %+v", n.Status)
		})
		k.expectNoRemoval()

		k.lowerFloor(5)
		l.Eventually(func() string {
			n, err := namespaces.Get(l.Context(), l.Namespace, metav1.GetOptions{})
			l.Must(err)
			if n.Annotations[v1alpha1.AnnotationNudgedAt] == "" {
				return fmt.Sprintf("Breakwater has not woken the namespace controller: %+v", n.ObjectMeta)
			}
			return ""
		})
		k.lowerFloor(2)
		waitForDeleted(l, func() error {
			_, err := namespaces.Get(l.Context(), l.Namespace, metav1.GetOptions{})
			return err
		})
	})
}

// The garbage collector retries after 5 ms, 10 ms, and so on, up to 15 minutes. No change of an object shortens its backoff, so the webhook
// evicts the pods itself.
func TestCascadingDeletion(t *testing.T) {
	for name, how := range map[string]metav1.DeletionPropagation{
		"in the background": metav1.DeletePropagationBackground,
		"in the foreground": metav1.DeletePropagationForeground,
	} {
		t.Run(name, func(t *testing.T) {
			claim(t, "protected pods stay after their ReplicaSet was deleted, and are deleted when budget exists", func(l *fixture) {
				createDeployment(l, here(l), "here", 4)
				createDeployment(l, elsewhere(l), "elsewhere", 2)
				k := startFloorWatch(l, 6, 6)
				deployments := here(l).Client.AppsV1().Deployments(l.Namespace)
				l.Must(deployments.Delete(l.Context(), "here", metav1.DeleteOptions{PropagationPolicy: &how}))
				waitForReplicaSetsDeleted(l, how)
				l.ExpectDenial(l.DeletePod(here(l), l.ExistingPods(here(l))[0].Name), "floor 6, available 6, removals under way 0")
				k.expectNoRemoval()

				k.floor = 0
				l.Must(l.Core.Delete(l.Context(), &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "web"}}))
				waitForDeleted(l, func() error {
					return l.Core.Get(l.Context(), client.ObjectKey{Namespace: l.Namespace, Name: "web"}, &v1alpha1.PodProtector{})
				})
				waitForPods(l, 0)
				waitForDeleted(l, func() error {
					_, err := deployments.Get(l.Context(), "here", metav1.GetOptions{})
					return err
				})
			})
		})
	}
}

// waitForReplicaSetsDeleted waits until the ReplicaSets are deleted or, with foreground deletion, are terminating.
func waitForReplicaSetsDeleted(l *fixture, how metav1.DeletionPropagation) {
	l.Helper()
	l.Eventually(func() string {
		sets, err := here(l).Client.AppsV1().ReplicaSets(l.Namespace).List(l.Context(), metav1.ListOptions{})
		l.Must(err)
		for i := range sets.Items {
			if how == metav1.DeletePropagationBackground || sets.Items[i].DeletionTimestamp == nil {
				return fmt.Sprintf("a ReplicaSet exists: %+v", sets.Items[i].ObjectMeta)
			}
		}
		return ""
	})
}
