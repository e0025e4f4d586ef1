package scheduling_test

import (
	"fmt"
	"strconv"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// here and elsewhere return the two cells.
func here(l *fixture) storm.Cell      { return l.Cells[0] }
func elsewhere(l *fixture) storm.Cell { return l.Cells[1] }

// plainPodSpec returns a pod spec without scheduling fields.
func plainPodSpec() corev1.PodSpec {
	none := false
	return corev1.PodSpec{AutomountServiceAccountToken: &none, Containers: []corev1.Container{{Name: "app", Image: storm.Image}}}
}

// appLabels returns the labels of the pods of an application.
func appLabels(name string) map[string]string { return map[string]string{"app": name} }

func newPod(name, of string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: appLabels(of)}, Spec: plainPodSpec()}
	for _, c := range change {
		c(pod)
	}
	return pod
}

// createPod waits for the ServiceAccount of the namespace, and creates a pod.
func createPod(l *fixture, cell storm.Cell, pod *corev1.Pod) (*corev1.Pod, error) {
	waitForServiceAccount(l, cell)
	return cell.Client.CoreV1().Pods(l.Namespace).Create(l.Context(), pod, metav1.CreateOptions{})
}

// waitForServiceAccount waits for the default ServiceAccount of a new namespace. Without it, the API server forbids pods.
func waitForServiceAccount(l *fixture, cell storm.Cell) {
	l.Helper()
	l.Eventually(func() string {
		if _, err := cell.Client.CoreV1().ServiceAccounts(l.Namespace).Get(l.Context(), "default", metav1.GetOptions{}); err != nil {
			return "the ServiceAccount does not exist yet: " + err.Error()
		}
		return ""
	})
}

// createPods creates pods that have no controller.
func createPods(l *fixture, cell storm.Cell, of string, pods int, change ...func(*corev1.Pod)) {
	l.Helper()
	for i := range pods {
		_, err := createPod(l, cell, newPod(of+"-"+strconv.Itoa(i), of, change...))
		l.Must(err)
	}
}

// createDeployment creates a Deployment. It does not wait for the pods.
func createDeployment(l *fixture, cell storm.Cell, of string, replicas int32, change ...func(*corev1.PodTemplateSpec)) {
	l.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: of}}
	d.Spec.Replicas, d.Spec.Template, d.Spec.Selector = &replicas, podTemplate(of, change...), &metav1.LabelSelector{MatchLabels: appLabels(of)}
	_, err := cell.Client.AppsV1().Deployments(l.Namespace).Create(l.Context(), d, metav1.CreateOptions{})
	l.Must(err)
}

func podTemplate(of string, change ...func(*corev1.PodTemplateSpec)) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: appLabels(of)}, Spec: plainPodSpec()}
	for _, c := range change {
		c(&t)
	}
	return t
}

// waitForRunning waits until an application has exactly the wanted number of pods, and all of them run. It returns them.
func waitForRunning(l *fixture, cell storm.Cell, of string, want int) []corev1.Pod {
	l.Helper()
	var pods []corev1.Pod
	l.Eventually(func() string {
		list, err := cell.Client.CoreV1().Pods(l.Namespace).List(l.Context(), metav1.ListOptions{LabelSelector: "app=" + of})
		l.Must(err)
		pods = list.Items
		for i := range pods {
			if pods[i].Status.Phase != corev1.PodRunning || pods[i].DeletionTimestamp != nil {
				return fmt.Sprintf("pod %s is not running: %+v", pods[i].Name, pods[i].Status.Conditions)
			}
		}
		if len(pods) != want {
			return fmt.Sprintf("%d pods of %s exist, want %d", len(pods), of, want)
		}
		return ""
	})
	return pods
}

// expectPlacement checks on which nodes the pods of an application run.
func expectPlacement(l *fixture, cell storm.Cell, of string, by func(nodeSpec) string, want map[string]int) {
	l.Helper()
	pods := 0
	for _, n := range want {
		pods += n
	}
	if diff := cmp.Diff(want, countByNode(cell, waitForRunning(l, cell, of, pods), by)); diff != "" {
		l.Errorf("pods of %s in %s (-want +got):\n%s", of, cell.Name, diff)
	}
}
