package living_test

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// here returns the cell in which a caller removes pods. elsewhere returns the other cell: pods that become available there are budget for the
// cell here.
func here(l *fixture) storm.Cell      { return l.Cells[0] }
func elsewhere(l *fixture) storm.Cell { return l.Cells[1] }

// podLabels returns the labels of the pods of a workload. All have app=web, so that one protector covers them.
func podLabels(workload string) map[string]string {
	return map[string]string{"app": "web", "workload": workload}
}

func podTemplate(workload string, change ...func(*corev1.PodTemplateSpec)) corev1.PodTemplateSpec {
	grace, noToken := int64(1), false
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: podLabels(workload)},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: &noToken,
			Containers: []corev1.Container{{Name: "app", Image: storm.Image}},
		},
	}
	for _, c := range change {
		c(&t)
	}
	return t
}

func createDeployment(l *fixture, cell storm.Cell, name string, replicas int32, change ...func(*corev1.PodTemplateSpec)) {
	l.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
	d.Spec.Replicas, d.Spec.Template = &replicas, podTemplate(name, change...)
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: podLabels(name)}
	_, err := cell.Client.AppsV1().Deployments(l.Namespace).Create(l.Context(), d, metav1.CreateOptions{})
	l.Must(err)
}

// scaleDeployment scales a Deployment by its scale subresource, as autoscalers do.
func scaleDeployment(l *fixture, cell storm.Cell, name string, replicas int32) {
	l.Helper()
	_, err := cell.Client.AppsV1().Deployments(l.Namespace).UpdateScale(l.Context(), name, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: name}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas},
	}, metav1.UpdateOptions{})
	l.Must(err)
}

func getDeployment(l *fixture, cell storm.Cell, name string) *appsv1.Deployment {
	l.Helper()
	d, err := cell.Client.AppsV1().Deployments(l.Namespace).Get(l.Context(), name, metav1.GetOptions{})
	l.Must(err)
	return d
}

// changeImage changes the image and the annotations in the template of a Deployment.
func changeImage(l *fixture, cell storm.Cell, name string, annotations map[string]string) {
	l.Helper()
	l.Eventually(func() string {
		d := getDeployment(l, cell, name)
		d.Spec.Template.Spec.Containers[0].Image += ".1"
		d.Spec.Template.Annotations = annotations
		_, err := cell.Client.AppsV1().Deployments(l.Namespace).Update(l.Context(), d, metav1.UpdateOptions{})
		return e2e.ErrorText(err)
	})
}

// denialText is the part of a denial that every client receives.
const denialText = "denied the request: Breakwater refuses to remove pod"

// waitForDenialEvent waits until an event of an object reports a denial.
func waitForDenialEvent(l *fixture, cell storm.Cell, kind, reason string) {
	l.Helper()
	waitForDenialEvents(l, cell, kind, reason, 1)
}

// waitForDenialEvents waits until events of objects of a kind report at least the given number of denials.
func waitForDenialEvents(l *fixture, cell storm.Cell, kind, reason string, times int32) {
	l.Helper()
	l.Eventually(func() string {
		events, err := cell.Client.CoreV1().Events(l.Namespace).List(l.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.kind=" + kind + ",reason=" + reason,
		})
		l.Must(err)
		reported := int32(0)
		for i := range events.Items {
			if strings.Contains(events.Items[i].Message, denialText) {
				reported += events.Items[i].Count
			}
		}
		if reported < times {
			return fmt.Sprintf("events %s of a %s report %d denials, want %d: %+v", reason, kind, reported, times, events.Items)
		}
		return ""
	})
}

// existingPodsOf returns the pods of a workload that are not terminating.
func existingPodsOf(l *fixture, cell storm.Cell, workload string) []corev1.Pod {
	l.Helper()
	var its []corev1.Pod
	for _, pod := range l.ExistingPods(cell) {
		if pod.Labels["workload"] == workload {
			its = append(its, pod)
		}
	}
	return its
}

// waitForDeleted waits until get returns a NotFound error.
func waitForDeleted(l *fixture, get func() error) {
	l.Helper()
	l.Eventually(func() string {
		err := get()
		switch {
		case apierrors.IsNotFound(err):
			return ""
		case err != nil:
			return err.Error()
		}
		return "it still exists"
	})
}
