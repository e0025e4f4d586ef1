package e2e

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// Application returns the application that CreateProtector protects.
func (l *Fixture) Application(pods int) storm.Application {
	return storm.Application{Namespace: l.Namespace, Name: "web", Pods: pods}
}

// CreateBarePods creates pods without controllers and waits until every core counts them.
func (l *Fixture) CreateBarePods(app storm.Application) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), l.timeout())
	defer cancel()
	l.Must(app.DeployBare(ctx, l.Cells))
	l.waitForAvailableInEachCore(app.Pods)
}

// ExistingPods lists the pods of a cell that are not terminating.
func (l *Fixture) ExistingPods(cell storm.Cell) []corev1.Pod {
	l.Helper()
	list, err := cell.Client.CoreV1().Pods(l.Namespace).List(l.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	l.Must(err)
	var existing []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			existing = append(existing, pod)
		}
	}
	return existing
}

// CountExistingPods returns the number of pods in all cells that are not terminating.
func (l *Fixture) CountExistingPods() int {
	l.Helper()
	n := 0
	for _, cell := range l.Cells {
		n += len(l.ExistingPods(cell))
	}
	return n
}

// DeletePod deletes a pod.
func (l *Fixture) DeletePod(cell storm.Cell, pod string) error {
	return cell.Client.CoreV1().Pods(l.Namespace).Delete(l.Context(), pod, metav1.DeleteOptions{})
}

// EvictPod evicts a pod.
func (l *Fixture) EvictPod(cell storm.Cell, pod string) error {
	return cell.Client.CoreV1().Pods(l.Namespace).EvictV1(l.Context(),
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: pod}})
}

// SetImage changes the image of a pod's container in place.
func (l *Fixture) SetImage(cell storm.Cell, pod, image string) error {
	patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"app","image":%q}]}}`, image)
	_, err := cell.Client.CoreV1().Pods(l.Namespace).Patch(l.Context(), pod,
		"application/strategic-merge-patch+json", []byte(patch), metav1.PatchOptions{})
	return err
}

// SetUpdatesHeld makes kwok ignore updates of a pod while hold is true.
func (l *Fixture) SetUpdatesHeld(cell storm.Cell, pod string, hold bool) {
	l.Helper()
	value := "null"
	if hold {
		value = `"held"`
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, federation.UpdateAnnotation, value)
	_, err := cell.Client.CoreV1().Pods(l.Namespace).Patch(l.Context(), pod,
		"application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	l.Must(err)
}

// SetReady makes kwok set the readiness of a pod.
func (l *Fixture) SetReady(cell storm.Cell, pod string, ready bool) {
	l.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%v"}}}`, federation.ReadyAnnotation, ready)
	_, err := cell.Client.CoreV1().Pods(l.Namespace).Patch(l.Context(), pod,
		"application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	l.Must(err)
}
