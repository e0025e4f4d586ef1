package disasters_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// setWhenStale sets spec.whenStale and spec.staleAfter of a Cell.
func (l fixture) setWhenStale(cell string, when v1alpha1.WhenStale, after time.Duration) {
	l.Helper()
	set := func(when v1alpha1.WhenStale, after time.Duration) string {
		c := &v1alpha1.Cell{}
		if err := l.Core.Get(l.Context(), client.ObjectKey{Name: cell}, c); err != nil {
			return err.Error()
		}
		c.Spec.WhenStale, c.Spec.StaleAfter = when, &metav1.Duration{Duration: after}
		return e2e.ErrorText(l.Core.Update(l.Context(), c))
	}
	l.Eventually(func() string { return set(when, after) })
}

func (l fixture) discountOf(cell string) v1alpha1.Discount {
	l.Helper()
	p := l.GetProtector()
	for i := range p.Status.Cells {
		if p.Status.Cells[i].CellID == cell {
			return p.Status.Cells[i].Discount
		}
	}
	l.Fatalf("the protector has no entry of cell %s: %+v", cell, p.Status)
	return ""
}

func TestWorkerDataPlaneLost(t *testing.T) {
	claim(t, "its pods do not count in other cells, which keep the floor without them until it recovers", func(l fixture) {
		l.createCountedProtector(4, 8)
		lost, left := l.Cells[1].Name, l.Cells[:1]
		l.setWhenStale(lost, v1alpha1.WhenStaleDiscount, 20*time.Second)
		l.waitForCellReport(lost)
		v := l.startPodWatch(4, left...)
		faults := l.faults(l.worker(1))
		l.restartComponents(l.worker(1))
		l.killComponents(l.worker(1))
		l.Eventually(func() string {
			if got := l.discountOf(lost); got != v1alpha1.DiscountStale {
				return fmt.Sprintf("cell %s is discounted as %q", lost, got)
			}
			return ""
		})
		l.waitForCondition(&v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: lost}}, v1alpha1.ConditionAggregationFresh, metav1.ConditionFalse, v1alpha1.ReasonNoHeartbeat)
		l.waitForEvent(lost, v1alpha1.ReasonNoHeartbeat)
		end := v.startAttack()
		for _, evict := range []bool{false, true} {
			l.waitForDenial(0, evict, "/web", "floor 4, available 4")
		}
		if got := end().Counts(); got.Denied == 0 || got.Admitted > 0 {
			l.Errorf("removals in the remaining cell: %+v", got)
		}

		for _, component := range faults.Components() {
			l.Must(faults.Restart(l.Context(), component))
		}
		l.waitForCondition(&v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: lost}}, v1alpha1.ConditionAggregationFresh, metav1.ConditionTrue, v1alpha1.ReasonHeartbeatSeen)
		l.WaitForSummary(e2e.AllAvailable(8))
		v.stopAndJudge() // the cells keep the floor together again
		l.startPodWatch(4).waitForExhaustedBudget("/web")
		l.setWhenStale(lost, v1alpha1.WhenStaleTrust, time.Minute)
	})
}

// waitForCellReport waits until the aggregator of a cell has reported the current generation of the Cell.
func (l fixture) waitForCellReport(cell string) {
	l.Helper()
	l.Eventually(func() string {
		c := &v1alpha1.Cell{}
		l.Must(l.Core.Get(l.Context(), client.ObjectKey{Name: cell}, c))
		for _, condition := range c.Status.Conditions {
			if condition.Type == v1alpha1.ConditionReady && condition.ObservedGeneration == c.Generation {
				return ""
			}
		}
		return "the aggregator of cell " + cell + " has not reported since its Cell changed"
	})
}

func TestWebhookConfigurationDeletedFromEtcd(t *testing.T) {
	claim(t, "it is detected and reported within a minute, unreviewed removals tighten the budget, and it can be restored", func(l fixture) {
		l.createCountedProtector(6, 8)
		cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.Cells[0].Name}}
		l.waitForCondition(cell, v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured)
		l.Cleanup(func() { _ = l.Breakwater.ConfigureWorker(context.WithoutCancel(l.Context()), l.worker(0)) }) // the next tests need it
		l.deleteFromEtcd(l.worker(0), 1, "validatingwebhookconfigurations/breakwater-cell-"+cell.Name)
		erased := time.Now()
		// No webhook reviews removals in this cell any more. docs/concepts/disasters.md calls this "not covered".
		l.Eventually(func() string { return e2e.ErrorText(l.dryRunRemoval(l.Cells[0])) })
		for _, pod := range l.ExistingPods(l.Cells[0])[:3] {
			l.Must(l.DeletePod(l.Cells[0], pod.Name))
		}
		l.waitForCondition(cell, v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonWebhookMissing)
		l.Logf("told after %s", time.Since(erased).Round(time.Millisecond))
		l.waitForEvent(cell.Name, v1alpha1.ReasonWebhookMissing)
		l.WaitForSummary(e2e.AllAvailable(5)) // the budget does not include the lost pods until they are counted
		// In the cells with a webhook, removals are denied because the pods in the cell without one are missing.
		v := l.startPodWatch(5)
		l.waitForDenial(1, false, "/web", "floor 6, available 5")
		l.expectDenial(l.removeAnyPod(1, true), "/web", "floor 6, available 5")

		l.Must(l.Breakwater.ConfigureWorker(l.Context(), l.worker(0)))
		l.Eventually(func() string { return denialProblem(l.dryRunRemoval(l.Cells[0]), "/web", "floor 6, available 5") })
		l.waitForCondition(cell, v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured)
		l.expectDenialsInAllCells("/web", "floor 6, available 5")
		again := l.Application(4)
		again.Instance = "again"
		l.Must(again.DeployBare(l.Context(), l.Cells))
		v.waitForAvailable(9)
		v.stopAndJudge()
		l.startPodWatch(6).waitForExhaustedBudget("/web")
	})
}

// dryRunRemoval deletes a pod of a cell as a dry run.
func (l fixture) dryRunRemoval(cell storm.Cell) error {
	l.Helper()
	pods := l.ExistingPods(cell)
	return cell.Client.CoreV1().Pods(l.Namespace).Delete(l.Context(), pods[0].Name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
}
