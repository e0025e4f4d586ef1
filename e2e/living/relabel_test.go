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
func TestKubectlLabelThatTakesAllPodsOutOfProtection(t *testing.T) {
	claim(t, "kubectl label pods --all app- is refused beyond the budget, and the ReplicaSet replaces the pods that left", func(l *lab) {
		const floor = 5
		deploy(l, here(l), "here", 4)
		deploy(l, elsewhere(l), "elsewhere", 2)
		l.Protect(floor)
		l.AwaitSummary(e2e.AllAvailable(6))
		for left := 0; left < 2; left = released(l) {
			before := released(l)
			command := run(l, "label", "pods", "--all", "app-", "-n", l.Namespace)
			if code := command.exitCode(); code == 0 {
				l.Fatalf("kubectl label took all pods out of protection:\n%s", command)
			}
			command.awaitWords(1, "denied the request: Breakwater refuses to relabel pod")
			if now := availablePods(l); now < floor {
				l.Fatalf("%d pods are available after kubectl label, and the floor is %d", now, floor)
			}
			if released(l) == before {
				l.Fatalf("no pod left although there was budget for one:\n%s", command)
			}
			l.AwaitSummary(e2e.AllAvailable(6)) // the reservations are settled, and the ReplicaSet has its pods again
		}
	})
}

// released is the number of pods here that lost their label.
func released(l *lab) int {
	l.Helper()
	list, err := here(l).Client.CoreV1().Pods(l.Namespace).List(l.Context(), metav1.ListOptions{LabelSelector: "workload=here,!app"})
	l.Must(err)
	return len(list.Items)
}

// availablePods is the number of pods of the service that are available in both cells.
func availablePods(l *lab) int {
	l.Helper()
	number := 0
	for _, cell := range l.Cells {
		for _, pod := range l.Pods(cell) {
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
