package disasters_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// deployWorkloads deploys an application with one Deployment in each cell, whose pods have no grace period. It waits until the pods are
// counted.
func (l fixture) deployWorkloads(pods int) storm.Application {
	l.Helper()
	app := l.Application(pods)
	app.GraceSeconds = []int64{0}
	l.Must(app.Deploy(l.Context(), l.Cells))
	l.WaitForSummary(e2e.AllAvailable(pods))
	l.waitForWebhooks()
	return app
}

func TestReplicaSetsDeletedFromWorkerEtcd(t *testing.T) {
	claim(t, "the garbage collector deletes their pods down to the floor, and the rest once replacements are available", func(l fixture) {
		l.CreateProtector(6)
		app := l.deployWorkloads(8)
		v := l.startPodWatch(6)
		cell := l.Cells[0]
		l.deleteFromEtcd(l.worker(0), 2, "deployments/"+l.Namespace, "replicasets/"+l.Namespace)
		v.waitForAvailable(6)
		l.waitForEvent("web", "RemovalRefused")
		// A controller that first receives the deletion of its ReplicaSet may create another one. The pods of that one are deleted in the
		// same way.
		l.waitForDenials("/web", "floor 6, available 6, removals under way 0")

		app.Pods = 4
		l.Must(app.Deploy(l.Context(), []storm.Cell{cell}))
		l.Eventually(func() string {
			sets, err := cell.Client.AppsV1().ReplicaSets(l.Namespace).List(l.Context(), metav1.ListOptions{})
			l.Must(err)
			if len(sets.Items) != 1 {
				return fmt.Sprintf("%d ReplicaSets", len(sets.Items))
			}
			pods := l.ExistingPods(cell)
			for i := range pods {
				if !metav1.IsControlledBy(&pods[i], &sets.Items[0]) {
					return fmt.Sprintf("pod %s still exists, but its ReplicaSet was deleted", pods[i].Name)
				}
			}
			return ""
		})
		l.WaitForSummary(e2e.AllAvailable(8))
	})
}
