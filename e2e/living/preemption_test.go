package living_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// The scheduler does not learn from a denial: it selects the victims with the lowest priority, even if only other pods can be removed.
func TestPreemption(t *testing.T) {
	claim(t, "a preempting pod waits for a protected victim although others could be removed, and replaces it when budget exists", func(l *fixture) {
		node := addNode(l, "first", 2)
		createDeployment(l, here(l), "here", 2, onTestNodes(l), withSeats(1))
		waitForPodsOnNode(l, node, 2)
		addNode(l, "second", 1)
		spare := createPriorityPod(l, "spare", 10, 1)
		createDeployment(l, elsewhere(l), "elsewhere", 2)
		waitForSchedule(l, spare)
		k := startFloorWatch(l, 4, 4)
		urgent := createPriorityPod(l, "urgent", 1000, 1)
		waitForLog(l, federation.Scheduler, 1, "Tried to preempt")
		if marked := markedVictims(l); marked != 1 {
			l.Errorf("%d pods are marked as victims, want 1", marked)
		}
		pod, err := here(l).Client.CoreV1().Pods(l.Namespace).Get(l.Context(), urgent, metav1.GetOptions{})
		l.Must(err)
		if pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != node {
			l.Errorf("the preemptor runs on %q with nominated node %q, want it pending for %s", pod.Spec.NodeName, pod.Status.NominatedNodeName, node)
		}
		k.expectNoRemoval()

		scaleDeployment(l, elsewhere(l), "elsewhere", 3)
		l.Eventually(func() string {
			pod, err := here(l).Client.CoreV1().Pods(l.Namespace).Get(l.Context(), urgent, metav1.GetOptions{})
			l.Must(err)
			if pod.Spec.NodeName != node || pod.Status.Phase != corev1.PodRunning {
				return fmt.Sprintf("the preemptor is not running: %+v", pod.Status)
			}
			return ""
		})
		// The victim's replacement stays pending, because no node has a free seat.
		l.WaitForSummary(summaryWithOnePending(5))
		if _, err := here(l).Client.CoreV1().Pods(l.Namespace).Get(l.Context(), spare, metav1.GetOptions{}); err != nil {
			l.Errorf("the other possible victim: %v", err)
		}
	})
}

// summaryWithOnePending returns the summary when one of n pods is not scheduled.
func summaryWithOnePending(n int32) v1alpha1.Summary {
	s := e2e.AllAvailable(int(n - 1))
	s.Total = n
	return s
}

func waitForSchedule(l *fixture, name string) {
	l.Helper()
	l.Eventually(func() string {
		pod, err := here(l).Client.CoreV1().Pods(l.Namespace).Get(l.Context(), name, metav1.GetOptions{})
		l.Must(err)
		if pod.Spec.NodeName == "" {
			return "pod " + name + " has no seat"
		}
		return ""
	})
}

func markedVictims(l *fixture) (marked int) {
	l.Helper()
	for _, pod := range existingPodsOf(l, here(l), "here") {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler {
				marked++
			}
		}
	}
	return marked
}

// createPriorityPod creates an unprotected pod of higher priority than the protected ones, and waits until the scheduler has seen it.
func createPriorityPod(l *fixture, name string, priority int32, seats int64) string {
	l.Helper()
	class, err := here(l).Client.SchedulingV1().PriorityClasses().Create(l.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: l.Namespace + "-" + name}, Value: priority,
	}, metav1.CreateOptions{})
	l.Must(err)
	t := podTemplate(name, onTestNodes(l), withSeats(seats))
	t.Spec.PriorityClassName = class.Name
	pods := here(l).Client.CoreV1().Pods(l.Namespace)
	l.Eventually(func() string { // until the API server has observed the PriorityClass
		_, err = pods.Create(l.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}, Spec: t.Spec,
		}, metav1.CreateOptions{})
		return e2e.ErrorText(err)
	})
	l.Eventually(func() string {
		pod, err := pods.Get(l.Context(), name, metav1.GetOptions{})
		l.Must(err)
		if len(pod.Status.Conditions) == 0 {
			return "the scheduler has not seen pod " + name
		}
		return ""
	})
	return name
}
