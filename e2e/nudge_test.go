package e2e_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/internal/storm"
)

// A ReplicaSet that is refused tries again after 5 ms, 10 ms, and so on, to a quarter of an hour.
func TestAControllerIsWokenWhenBudgetReturns(t *testing.T) {
	claim(t, "a scale-down that was refused goes on when there is budget, since its ReplicaSet was touched", func(l *lab) {
		app := l.App(8)
		app.GraceSeconds = []int64{0}
		l.Protect(8)
		l.Must(app.Deploy(l.Context(), l.Cells))
		l.AwaitSummary(e2e.AllAvailable(8))
		cell := l.Cells[0]
		scale(l, cell, 2)
		l.Eventually(func() string {
			events, err := cell.Client.CoreV1().Events(l.Namespace).List(l.Context(), metav1.ListOptions{FieldSelector: "reason=FailedDelete"})
			l.Must(err)
			if len(events.Items) == 0 {
				return "nobody was refused yet"
			}
			return ""
		})
		before := deployment(l, cell)
		lower(l, 6)
		l.Eventually(func() string {
			if left := len(l.Pods(cell)); left != 2 {
				return fmt.Sprintf("%d pods are left, want 2", left)
			}
			return ""
		})
		sets, err := cell.Client.AppsV1().ReplicaSets(l.Namespace).List(l.Context(), metav1.ListOptions{})
		l.Must(err)
		if len(sets.Items) != 1 || sets.Items[0].Annotations[v1alpha1.AnnotationNudgedAt] == "" {
			l.Errorf("nobody touched the ReplicaSet, or there is another: %+v", sets.Items)
		}
		if after := deployment(l, cell); after.Generation != before.Generation {
			l.Errorf("the Deployment was changed, from generation %d to %d", before.Generation, after.Generation)
		}
	})
}

func TestEvictionsFromTaintedNodesAreTakenUpAgain(t *testing.T) {
	claim(t, "all pods leave a tainted node, although the eviction of most was refused and given up", func(l *lab) {
		app := l.App(12)
		app.GraceSeconds = []int64{0}
		l.Protect(11)
		l.Must(app.Deploy(l.Context(), l.Cells))
		l.AwaitSummary(e2e.AllAvailable(12))
		cell := l.Cells[0]
		node := l.Pods(cell)[0].Spec.NodeName
		taint := func(patch string) {
			_, err := cell.Client.CoreV1().Nodes().Patch(l.Context(), node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
			l.Must(err)
		}
		taint(fmt.Sprintf(`{"spec":{"taints":[{"key":"e2e.breakwater.dev/down","effect":%q}]}}`, corev1.TaintEffectNoExecute))
		l.Cleanup(func() {
			patch := []byte(`{"spec":{"taints":null}}`)
			_, _ = cell.Client.CoreV1().Nodes().Patch(l.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{})
		})
		l.Eventually(func() string {
			on := 0
			for _, pod := range l.Pods(cell) {
				if pod.Spec.NodeName == node {
					on++
				}
			}
			if on > 0 {
				return fmt.Sprintf("%d pods are still on node %s", on, node)
			}
			return ""
		})
		l.AwaitSummary(e2e.AllAvailable(12))
	})
}

// lower sets the floor.
func lower(l *lab, floor int32) {
	l.Helper()
	l.Eventually(func() string {
		p := l.Protector()
		p.Spec.MinAvailable = v1alpha1.Pods(floor)
		return e2e.Word(l.Core.Update(l.Context(), p))
	})
}

func deployment(l *lab, cell storm.Cell) *appsv1.Deployment {
	l.Helper()
	d, err := cell.Client.AppsV1().Deployments(l.Namespace).Get(l.Context(), "web-0", metav1.GetOptions{})
	l.Must(err)
	return d
}

func scale(l *lab, cell storm.Cell, replicas int32) {
	l.Helper()
	l.Eventually(func() string {
		d := deployment(l, cell)
		d.Spec.Replicas = &replicas
		_, err := cell.Client.AppsV1().Deployments(l.Namespace).Update(l.Context(), d, metav1.UpdateOptions{})
		return e2e.Word(err)
	})
}
