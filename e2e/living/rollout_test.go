package living_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

func TestARollingUpdateThatSurges(t *testing.T) {
	claim(t, "a Deployment that adds new pods before it removes old ones is updated under a floor of all its pods", func(l *lab) {
		deploy(l, here(l), "here", 4)
		deploy(l, elsewhere(l), "elsewhere", 2)
		keep(l, 6, 6)
		strategy(l, "here", 1, 0)
		reroll(l, here(l), "here", nil)
		awaitRolled(l, "here")
		l.AwaitSummary(e2e.AllAvailable(6))
	})
}

// The Deployment controller counts the pods that its ReplicaSets shall have, and not those that they have.
func TestARollingUpdateThatDoesNotSurge(t *testing.T) {
	claim(t, "a Deployment that removes first gets its new pods although the old ones stay, and they are the budget that it goes on with", func(l *lab) {
		deploy(l, here(l), "here", 4)
		deploy(l, elsewhere(l), "elsewhere", 2)
		keep(l, 6, 6)
		strategy(l, "here", 0, 2)
		reroll(l, here(l), "here", nil)
		awaitRefusal(l, here(l), "ReplicaSet", "FailedDelete")
		awaitRolled(l, "here")
		l.AwaitSummary(e2e.AllAvailable(6))
	})
}

func TestARollingUpdateWhoseNewPodsAreNotReady(t *testing.T) {
	claim(t, "a Deployment says ReplicaFailure while it may not remove old pods, and goes on by itself when new ones are ready", func(l *lab) {
		deploy(l, here(l), "here", 4)
		deploy(l, elsewhere(l), "elsewhere", 2)
		k := keep(l, 6, 6)
		strategy(l, "here", 0, 2)
		reroll(l, here(l), "here", map[string]string{federation.ReadyAnnotation: "false"})
		awaitRefusal(l, here(l), "ReplicaSet", "FailedDelete")
		l.Eventually(func() string {
			d := deployment(l, here(l), "here")
			for _, c := range d.Status.Conditions {
				if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue && c.Reason == "FailedDelete" &&
					strings.Contains(c.Message, refusalWords) {
					return ""
				}
			}
			return fmt.Sprintf("the Deployment says nothing of it: %+v", d.Status)
		})
		k.untouched()

		l.Eventually(func() string {
			for _, pod := range l.Pods(here(l)) {
				if pod.Annotations[federation.ReadyAnnotation] == "false" {
					l.SetReady(here(l), pod.Name, true)
				}
			}
			return notRolled(l, "here")
		})
		l.AwaitSummary(e2e.AllAvailable(6))
	})
}

// strategy sets how many pods a Deployment may add and may miss while it is updated.
func strategy(l *lab, name string, surge, missing int32) {
	l.Helper()
	more, fewer := intstr.FromInt32(surge), intstr.FromInt32(missing)
	l.Eventually(func() string {
		d := deployment(l, here(l), name)
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &more, MaxUnavailable: &fewer}
		_, err := here(l).Client.AppsV1().Deployments(l.Namespace).Update(l.Context(), d, metav1.UpdateOptions{})
		return e2e.Word(err)
	})
}

func awaitRolled(l *lab, name string) {
	l.Helper()
	l.Eventually(func() string { return notRolled(l, name) })
}

// notRolled tells how far the update of a Deployment is; nothing when it is done.
func notRolled(l *lab, name string) string {
	l.Helper()
	d := deployment(l, here(l), name)
	s, want := &d.Status, *d.Spec.Replicas
	if s.ObservedGeneration == d.Generation && s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want {
		return ""
	}
	return fmt.Sprintf("the Deployment is not updated: %+v", s)
}

func TestAStatefulSetsRollingUpdate(t *testing.T) {
	claim(t, "a StatefulSet waits at its first pod, and is updated one by one when one more is available in the other cell", func(l *lab) {
		statefulSet(l, here(l), "here", 3)
		deploy(l, elsewhere(l), "elsewhere", 2)
		k := keep(l, 5, 5)
		rerollSet(l, "here")
		awaitRefusal(l, here(l), "StatefulSet", "FailedDelete")
		k.untouched()

		scale(l, elsewhere(l), "elsewhere", 3)
		awaitSetRolled(l, "here", 3)
		l.AwaitSummary(e2e.AllAvailable(6))
	})
}

func statefulSet(l *lab, cell storm.Cell, name string, replicas int32) {
	l.Helper()
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Replicas, s.Spec.Template, s.Spec.PodManagementPolicy = &replicas, template(name), appsv1.ParallelPodManagement
	s.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels(name)}
	_, err := cell.Client.AppsV1().StatefulSets(l.Namespace).Create(l.Context(), s, metav1.CreateOptions{})
	l.Must(err)
}

// rerollSet gives the pods of a StatefulSet another image.
func rerollSet(l *lab, name string) {
	l.Helper()
	sets := here(l).Client.AppsV1().StatefulSets(l.Namespace)
	l.Eventually(func() string {
		newest, err := sets.Get(l.Context(), name, metav1.GetOptions{})
		l.Must(err)
		newest.Spec.Template.Spec.Containers[0].Image += ".1"
		_, err = sets.Update(l.Context(), newest, metav1.UpdateOptions{})
		return e2e.Word(err)
	})
}

func awaitSetRolled(l *lab, name string, replicas int32) {
	l.Helper()
	l.Eventually(func() string {
		s, err := here(l).Client.AppsV1().StatefulSets(l.Namespace).Get(l.Context(), name, metav1.GetOptions{})
		l.Must(err)
		if s.Status.ObservedGeneration == s.Generation && s.Status.UpdatedReplicas == replicas && s.Status.AvailableReplicas == replicas {
			return ""
		}
		return fmt.Sprintf("the StatefulSet is not updated: %+v", s.Status)
	})
}

func TestADaemonSetsRollingUpdate(t *testing.T) {
	claim(t, "a DaemonSet is updated node by node when one more pod is available in the other cell", func(l *lab) {
		for _, node := range []string{"first", "second", "third"} {
			addNode(l, node, 0)
		}
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "here"}}
		set.Spec.Template, set.Spec.Selector = template("here", inRoom(l)), &metav1.LabelSelector{MatchLabels: labels("here")}
		sets := here(l).Client.AppsV1().DaemonSets(l.Namespace)
		_, err := sets.Create(l.Context(), set, metav1.CreateOptions{})
		l.Must(err)
		deploy(l, elsewhere(l), "elsewhere", 2)
		k := keep(l, 5, 5)
		l.Eventually(func() string {
			newest, err := sets.Get(l.Context(), "here", metav1.GetOptions{})
			l.Must(err)
			newest.Spec.Template.Spec.Containers[0].Image += ".1"
			_, err = sets.Update(l.Context(), newest, metav1.UpdateOptions{})
			return e2e.Word(err)
		})
		awaitRefusal(l, here(l), "DaemonSet", "FailedDelete")
		k.untouched()

		scale(l, elsewhere(l), "elsewhere", 3)
		l.Eventually(func() string {
			s, err := sets.Get(l.Context(), "here", metav1.GetOptions{})
			l.Must(err)
			if s.Status.ObservedGeneration == s.Generation && s.Status.UpdatedNumberScheduled == 3 && s.Status.NumberAvailable == 3 {
				return ""
			}
			return fmt.Sprintf("the DaemonSet is not updated: %+v", s.Status)
		})
		l.AwaitSummary(e2e.AllAvailable(6))
	})
}
