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

// here and elsewhere are the cells.
func here(l *lab) storm.Cell      { return l.Cells[0] }
func elsewhere(l *lab) storm.Cell { return l.Cells[1] }

// spec is that of a pod that asks for nothing.
func spec() corev1.PodSpec {
	none := false
	return corev1.PodSpec{AutomountServiceAccountToken: &none, Containers: []corev1.Container{{Name: "app", Image: storm.Image}}}
}

// app is the label of an application's pods.
func app(name string) map[string]string { return map[string]string{"app": name} }

func newPod(name, of string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: app(of)}, Spec: spec()}
	for _, c := range change {
		c(pod)
	}
	return pod
}

// create makes a pod.
func create(l *lab, cell storm.Cell, pod *corev1.Pod) (*corev1.Pod, error) {
	awaitAccount(l, cell)
	return cell.Client.CoreV1().Pods(l.Namespace).Create(l.Context(), pod, metav1.CreateOptions{})
}

// awaitAccount waits for the ServiceAccount of a new namespace: without it pods are forbidden.
func awaitAccount(l *lab, cell storm.Cell) {
	l.Helper()
	l.Eventually(func() string {
		if _, err := cell.Client.CoreV1().ServiceAccounts(l.Namespace).Get(l.Context(), "default", metav1.GetOptions{}); err != nil {
			return "there is no ServiceAccount yet: " + err.Error()
		}
		return ""
	})
}

// run makes pods that no controller replaces.
func run(l *lab, cell storm.Cell, of string, pods int, change ...func(*corev1.Pod)) {
	l.Helper()
	for i := range pods {
		_, err := create(l, cell, newPod(of+"-"+strconv.Itoa(i), of, change...))
		l.Must(err)
	}
}

// deploy makes a Deployment with so many replicas. It does not wait for pods.
func deploy(l *lab, cell storm.Cell, of string, replicas int32, change ...func(*corev1.PodTemplateSpec)) {
	l.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: of}}
	d.Spec.Replicas, d.Spec.Template, d.Spec.Selector = &replicas, template(of, change...), &metav1.LabelSelector{MatchLabels: app(of)}
	_, err := cell.Client.AppsV1().Deployments(l.Namespace).Create(l.Context(), d, metav1.CreateOptions{})
	l.Must(err)
}

func template(of string, change ...func(*corev1.PodTemplateSpec)) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app(of)}, Spec: spec()}
	for _, c := range change {
		c(&t)
	}
	return t
}

// landed waits until so many pods of an application run, and no others of it are there.
func landed(l *lab, cell storm.Cell, of string, want int) []corev1.Pod {
	l.Helper()
	var pods []corev1.Pod
	l.Eventually(func() string {
		list, err := cell.Client.CoreV1().Pods(l.Namespace).List(l.Context(), metav1.ListOptions{LabelSelector: "app=" + of})
		l.Must(err)
		pods = list.Items
		for i := range pods {
			if pods[i].Status.Phase != corev1.PodRunning || pods[i].DeletionTimestamp != nil {
				return fmt.Sprintf("pod %s does not run: %+v", pods[i].Name, pods[i].Status.Conditions)
			}
		}
		if len(pods) != want {
			return fmt.Sprintf("there are %d pods of %s, want %d", len(pods), of, want)
		}
		return ""
	})
	return pods
}

// wantPlaces checks where an application's pods run.
func wantPlaces(l *lab, cell storm.Cell, of string, by func(site) string, want map[string]int) {
	l.Helper()
	pods := 0
	for _, n := range want {
		pods += n
	}
	if diff := cmp.Diff(want, where(cell, landed(l, cell, of, pods), by)); diff != "" {
		l.Errorf("pods of %s in %s (-want +got):\n%s", of, cell.Name, diff)
	}
}
