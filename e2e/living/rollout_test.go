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

func TestRollingUpdateWithSurge(t *testing.T) {
	claim(t, "a Deployment with maxSurge is updated under a floor of all its pods", func(l *fixture) {
		createDeployment(l, here(l), "here", 4)
		createDeployment(l, elsewhere(l), "elsewhere", 2)
		startFloorWatch(l, 6, 6)
		setStrategy(l, "here", 1, 0)
		changeImage(l, here(l), "here", nil)
		waitForRollout(l, "here")
		l.WaitForSummary(e2e.AllAvailable(6))
	})
}

// The Deployment controller uses the desired replicas of its ReplicaSets, not their existing pods.
func TestRollingUpdateWithoutSurge(t *testing.T) {
	claim(t, "a Deployment with maxUnavailable creates new pods although old ones stay, and continues with their budget", func(l *fixture) {
		createDeployment(l, here(l), "here", 4)
		createDeployment(l, elsewhere(l), "elsewhere", 2)
		startFloorWatch(l, 6, 6)
		setStrategy(l, "here", 0, 2)
		changeImage(l, here(l), "here", nil)
		waitForDenialEvent(l, here(l), "ReplicaSet", "FailedDelete")
		waitForRollout(l, "here")
		l.WaitForSummary(e2e.AllAvailable(6))
	})
}

func TestRollingUpdateWithUnreadyPods(t *testing.T) {
	claim(t, "a Deployment reports ReplicaFailure while old pods cannot be removed, and continues when new pods are ready", func(l *fixture) {
		createDeployment(l, here(l), "here", 4)
		createDeployment(l, elsewhere(l), "elsewhere", 2)
		k := startFloorWatch(l, 6, 6)
		setStrategy(l, "here", 0, 2)
		changeImage(l, here(l), "here", map[string]string{federation.ReadyAnnotation: "false"})
		waitForDenialEvent(l, here(l), "ReplicaSet", "FailedDelete")
		l.Eventually(func() string {
			d := getDeployment(l, here(l), "here")
			for _, c := range d.Status.Conditions {
				if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue && c.Reason == "FailedDelete" &&
					strings.Contains(c.Message, denialText) {
					return ""
				}
			}
			return fmt.Sprintf("the Deployment does not report the denial: %+v", d.Status)
		})
		k.expectNoRemoval()

		l.Eventually(func() string {
			for _, pod := range l.ExistingPods(here(l)) {
				if pod.Annotations[federation.ReadyAnnotation] == "false" {
					l.SetReady(here(l), pod.Name, true)
				}
			}
			return rolloutProblem(l, "here")
		})
		l.WaitForSummary(e2e.AllAvailable(6))
	})
}

// setStrategy sets maxSurge and maxUnavailable of a Deployment.
func setStrategy(l *fixture, name string, surge, missing int32) {
	l.Helper()
	more, fewer := intstr.FromInt32(surge), intstr.FromInt32(missing)
	l.Eventually(func() string {
		d := getDeployment(l, here(l), name)
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &more, MaxUnavailable: &fewer}
		_, err := here(l).Client.AppsV1().Deployments(l.Namespace).Update(l.Context(), d, metav1.UpdateOptions{})
		return e2e.ErrorText(err)
	})
}

func waitForRollout(l *fixture, name string) {
	l.Helper()
	l.Eventually(func() string { return rolloutProblem(l, name) })
}

// rolloutProblem returns the status of a Deployment while its rollout is in progress, and "" when it is complete.
func rolloutProblem(l *fixture, name string) string {
	l.Helper()
	d := getDeployment(l, here(l), name)
	s, want := &d.Status, *d.Spec.Replicas
	if s.ObservedGeneration == d.Generation && s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want {
		return ""
	}
	return fmt.Sprintf("the Deployment is not rolled out: %+v", s)
}

func TestStatefulSetRollingUpdate(t *testing.T) {
	claim(t, "a StatefulSet waits at its first pod, and is updated pod by pod when one more is available in the other cell", func(l *fixture) {
		createStatefulSet(l, here(l), "here", 3)
		createDeployment(l, elsewhere(l), "elsewhere", 2)
		k := startFloorWatch(l, 5, 5)
		changeStatefulSetImage(l, "here")
		waitForDenialEvent(l, here(l), "StatefulSet", "FailedDelete")
		k.expectNoRemoval()

		scaleDeployment(l, elsewhere(l), "elsewhere", 3)
		waitForStatefulSetRollout(l, "here", 3)
		l.WaitForSummary(e2e.AllAvailable(6))
	})
}

func createStatefulSet(l *fixture, cell storm.Cell, name string, replicas int32) {
	l.Helper()
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Replicas, s.Spec.Template, s.Spec.PodManagementPolicy = &replicas, podTemplate(name), appsv1.ParallelPodManagement
	s.Spec.Selector = &metav1.LabelSelector{MatchLabels: podLabels(name)}
	_, err := cell.Client.AppsV1().StatefulSets(l.Namespace).Create(l.Context(), s, metav1.CreateOptions{})
	l.Must(err)
}

// changeStatefulSetImage changes the image of a StatefulSet.
func changeStatefulSetImage(l *fixture, name string) {
	l.Helper()
	sets := here(l).Client.AppsV1().StatefulSets(l.Namespace)
	l.Eventually(func() string {
		newest, err := sets.Get(l.Context(), name, metav1.GetOptions{})
		l.Must(err)
		newest.Spec.Template.Spec.Containers[0].Image += ".1"
		_, err = sets.Update(l.Context(), newest, metav1.UpdateOptions{})
		return e2e.ErrorText(err)
	})
}

func waitForStatefulSetRollout(l *fixture, name string, replicas int32) {
	l.Helper()
	l.Eventually(func() string {
		s, err := here(l).Client.AppsV1().StatefulSets(l.Namespace).Get(l.Context(), name, metav1.GetOptions{})
		l.Must(err)
		if s.Status.ObservedGeneration == s.Generation && s.Status.UpdatedReplicas == replicas && s.Status.AvailableReplicas == replicas {
			return ""
		}
		return fmt.Sprintf("the StatefulSet is not rolled out: %+v", s.Status)
	})
}

func TestDaemonSetRollingUpdate(t *testing.T) {
	claim(t, "a DaemonSet is updated node by node when one more pod is available in the other cell", func(l *fixture) {
		for _, node := range []string{"first", "second", "third"} {
			addNode(l, node, 0)
		}
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "here"}}
		set.Spec.Template, set.Spec.Selector = podTemplate("here", onTestNodes(l)), &metav1.LabelSelector{MatchLabels: podLabels("here")}
		sets := here(l).Client.AppsV1().DaemonSets(l.Namespace)
		_, err := sets.Create(l.Context(), set, metav1.CreateOptions{})
		l.Must(err)
		createDeployment(l, elsewhere(l), "elsewhere", 2)
		k := startFloorWatch(l, 5, 5)
		l.Eventually(func() string {
			newest, err := sets.Get(l.Context(), "here", metav1.GetOptions{})
			l.Must(err)
			newest.Spec.Template.Spec.Containers[0].Image += ".1"
			_, err = sets.Update(l.Context(), newest, metav1.UpdateOptions{})
			return e2e.ErrorText(err)
		})
		waitForDenialEvent(l, here(l), "DaemonSet", "FailedDelete")
		k.expectNoRemoval()

		scaleDeployment(l, elsewhere(l), "elsewhere", 3)
		l.Eventually(func() string {
			s, err := sets.Get(l.Context(), "here", metav1.GetOptions{})
			l.Must(err)
			if s.Status.ObservedGeneration == s.Generation && s.Status.UpdatedNumberScheduled == 3 && s.Status.NumberAvailable == 3 {
				return ""
			}
			return fmt.Sprintf("the DaemonSet is not rolled out: %+v", s.Status)
		})
		l.WaitForSummary(e2e.AllAvailable(6))
	})
}
