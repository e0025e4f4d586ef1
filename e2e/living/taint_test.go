package living_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e"
)

// The controller asks five times for each pod, within a twentieth of a second, and never again; it tells nobody.
func TestEvictionsFromTaintedNodesAreTakenUpAgain(t *testing.T) {
	claim(t, "all pods stay on a node with a taint NoExecute while there is no budget, and leave it one by one when there is, although the controller has given up", func(l *lab) {
		node := fillNode(l)
		k := keep(l, 4, 4)
		expel(l, node)
		awaitMarked(l, node)
		k.untouched()

		scale(l, elsewhere(l), "elsewhere", 3)
		awaitOnNode(l, node, 0)
		l.AwaitSummary(e2e.AllAvailable(5))
	})
}

// Whoever asked again and again would keep the budget reserved for nothing.
func TestADisruptionBudgetOnATaintedNode(t *testing.T) {
	claim(t, "budget comes back although a PodDisruptionBudget keeps the pods of a tainted node, which their controller has given up", func(l *lab) {
		node := fillNode(l)
		k := keep(l, 4, 4)
		expel(l, node)
		awaitMarked(l, node)
		k.untouched()
		forbidEvictions(l)
		k.lower(2) // now they are asked for again, and are reserved in vain
		l.Eventually(func() string {
			if got := l.Protector().Status.Summary; got.EstimatedAvailable == 4 {
				return fmt.Sprintf("nothing is reserved: %+v", got)
			}
			return ""
		})
		l.AwaitSummary(e2e.AllAvailable(4))
		l.Must(l.Remove(elsewhere(l), l.Pods(elsewhere(l))[0].Name))
		l.AwaitSummary(e2e.AllAvailable(4))
	})
}

// awaitMarked waits until an event says for each of the two pods of a node that it is marked for deletion.
func awaitMarked(l *lab, node string) {
	l.Helper()
	l.Eventually(func() string {
		events, err := here(l).Client.CoreV1().Events(l.Namespace).List(l.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Pod,reason=TaintManagerEviction",
		})
		l.Must(err)
		if len(events.Items) < 2 {
			return fmt.Sprintf("the pods of node %s are not marked: %+v", node, events.Items)
		}
		return ""
	})
}
