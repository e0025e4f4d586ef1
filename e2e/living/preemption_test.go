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

// The scheduler does not learn from a refusal: it takes the victims of the lowest priority, whoever may be removed.
func TestPreemption(t *testing.T) {
	claim(t, "a pod of high priority waits for a victim that may not be removed, although there are others that may, and runs in its place when there is budget", func(l *lab) {
		node := addNode(l, "first", 2)
		deploy(l, here(l), "here", 2, inRoom(l), seated(1))
		awaitOnNode(l, node, 2)
		addNode(l, "second", 1)
		spare := important(l, "spare", 10, 1)
		deploy(l, elsewhere(l), "elsewhere", 2)
		awaitSeat(l, spare)
		k := keep(l, 4, 4)
		urgent := important(l, "urgent", 1000, 1)
		awaitLogged(l, federation.Scheduler, 1, "Tried to preempt")
		if marked := markedVictims(l); marked != 1 {
			l.Errorf("%d pods are marked as victims, want 1", marked)
		}
		pod, err := here(l).Client.CoreV1().Pods(l.Namespace).Get(l.Context(), urgent, metav1.GetOptions{})
		l.Must(err)
		if pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != node {
			l.Errorf("the preemptor runs on %q and is nominated for %q, want it to wait for %s", pod.Spec.NodeName, pod.Status.NominatedNodeName, node)
		}
		k.untouched()

		scale(l, elsewhere(l), "elsewhere", 3)
		l.Eventually(func() string {
			pod, err := here(l).Client.CoreV1().Pods(l.Namespace).Get(l.Context(), urgent, metav1.GetOptions{})
			l.Must(err)
			if pod.Spec.NodeName != node || pod.Status.Phase != corev1.PodRunning {
				return fmt.Sprintf("the preemptor does not run: %+v", pod.Status)
			}
			return ""
		})
		// The victim's replacement has no seat.
		l.AwaitSummary(allButOne(5))
		if _, err := here(l).Client.CoreV1().Pods(l.Namespace).Get(l.Context(), spare, metav1.GetOptions{}); err != nil {
			l.Errorf("the other pod that could have been a victim: %v", err)
		}
	})
}

// allButOne is the summary when one of n pods has found no node.
func allButOne(n int32) v1alpha1.Summary {
	s := e2e.AllAvailable(int(n - 1))
	s.Total = n
	return s
}

func awaitSeat(l *lab, name string) {
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

func markedVictims(l *lab) (marked int) {
	l.Helper()
	for _, pod := range podsOf(l, here(l), "here") {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler {
				marked++
			}
		}
	}
	return marked
}

// important makes a pod that nobody protects and that is worth more than the protected ones, and waits until the
// scheduler has looked at it.
func important(l *lab, name string, priority int32, seats int64) string {
	l.Helper()
	class, err := here(l).Client.SchedulingV1().PriorityClasses().Create(l.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: l.Namespace + "-" + name}, Value: priority,
	}, metav1.CreateOptions{})
	l.Must(err)
	t := template(name, inRoom(l), seated(seats))
	t.Spec.PriorityClassName = class.Name
	pods := here(l).Client.CoreV1().Pods(l.Namespace)
	l.Eventually(func() string { // the apiserver learns of the class
		_, err = pods.Create(l.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}, Spec: t.Spec,
		}, metav1.CreateOptions{})
		return e2e.Word(err)
	})
	l.Eventually(func() string {
		pod, err := pods.Get(l.Context(), name, metav1.GetOptions{})
		l.Must(err)
		if len(pod.Status.Conditions) == 0 {
			return "nobody has looked at pod " + name
		}
		return ""
	})
	return name
}
