package living_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
)

// Rule 14: a ReplicaSet releases pods that lose the labels of its selector, and creates others in their place.
func TestKubectlLabelRemovesPodsFromCoverage(t *testing.T) {
	claim(t, "kubectl label pods --all app- is denied beyond the budget, and the ReplicaSet replaces the relabeled pods", func(l *fixture) {
		const floor = 5
		createDeployment(l, here(l), "here", 4)
		createDeployment(l, elsewhere(l), "elsewhere", 2)
		l.CreateProtector(floor)
		l.WaitForSummary(e2e.AllAvailable(6))
		for left := 0; left < 2; left = countReleasedPods(l) {
			before := countReleasedPods(l)
			command := startKubectl(l, "label", "pods", "--all", "app-", "-n", l.Namespace)
			if code := command.exitCode(); code == 0 {
				l.Fatalf("kubectl label removed all pods from coverage:\n%s", command)
			}
			command.waitForText(1, "denied the request: Breakwater refuses to relabel pod")
			if now := countAvailablePods(l); now < floor {
				l.Fatalf("%d pods are available after kubectl label, want the floor of %d", now, floor)
			}
			if countReleasedPods(l) == before {
				l.Fatalf("no pod was relabeled, want 1:\n%s", command)
			}
			l.WaitForSummary(e2e.AllAvailable(6)) // the reservations are settled, and the ReplicaSet has replaced its pods
		}
	})
}

// countReleasedPods returns the number of pods here that lost their label.
func countReleasedPods(l *fixture) int {
	l.Helper()
	list, err := here(l).Client.CoreV1().Pods(l.Namespace).List(l.Context(), metav1.ListOptions{LabelSelector: "workload=here,!app"})
	l.Must(err)
	return len(list.Items)
}

// countAvailablePods returns the number of available pods of the service in both cells.
func countAvailablePods(l *fixture) int {
	l.Helper()
	number := 0
	for _, cell := range l.Cells {
		for _, pod := range l.ExistingPods(cell) {
			if isServing(&pod) {
				number++
			}
		}
	}
	return number
}

func isServing(pod *corev1.Pod) bool {
	return podhealth.FactsOf(pod).At(0, pod.CreationTimestamp.Time).Meets(v1alpha1.CriterionAvailable)
}
