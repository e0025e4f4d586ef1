package disasters_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// deploy makes an application of one Deployment in each cell, of pods that go at once, and waits until they are counted.
func (l lab) deploy(pods int) storm.Application {
	l.Helper()
	app := l.App(pods)
	app.GraceSeconds = []int64{0}
	l.Must(app.Deploy(l.Context(), l.Cells))
	l.AwaitSummary(e2e.AllAvailable(pods))
	l.awaitHeard()
	return app
}

func TestReplicaSetsAreErasedInAWorker(t *testing.T) {
	claim(t, "the garbage collector takes their pods to the floor and no further, and the rest when there are others", func(l lab) {
		l.Protect(6)
		app := l.deploy(8)
		v := l.watch(6)
		cell := l.Cells[0]
		l.erase(l.worker(0), 2, "deployments/"+l.Namespace, "replicasets/"+l.Namespace)
		v.awaitAvailable(6)
		l.awaitEvent("web", "RemovalRefused")
		// A controller that hears of its ReplicaSet's loss first may make another, whose pods go the same way.
		l.awaitRefusals("/web", "floor 6, available 6, removals under way 0")

		app.Pods = 4
		l.Must(app.Deploy(l.Context(), []storm.Cell{cell}))
		l.Eventually(func() string {
			sets, err := cell.Client.AppsV1().ReplicaSets(l.Namespace).List(l.Context(), metav1.ListOptions{})
			l.Must(err)
			if len(sets.Items) != 1 {
				return fmt.Sprintf("%d ReplicaSets", len(sets.Items))
			}
			pods := l.Pods(cell)
			for i := range pods {
				if !metav1.IsControlledBy(&pods[i], &sets.Items[0]) {
					return fmt.Sprintf("pod %s, whose ReplicaSet is gone, is still there", pods[i].Name)
				}
			}
			return ""
		})
		l.AwaitSummary(e2e.AllAvailable(8))
	})
}
