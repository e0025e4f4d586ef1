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

// setWhenStale says what a silent cell's pods count for, until the test ends.
func (l lab) setWhenStale(cell string, when v1alpha1.WhenStale, after time.Duration) {
	l.Helper()
	set := func(when v1alpha1.WhenStale, after time.Duration) string {
		c := &v1alpha1.Cell{}
		if err := l.Core.Get(l.Context(), client.ObjectKey{Name: cell}, c); err != nil {
			return err.Error()
		}
		c.Spec.WhenStale, c.Spec.StaleAfter = when, &metav1.Duration{Duration: after}
		return e2e.Word(l.Core.Update(l.Context(), c))
	}
	l.Eventually(func() string { return set(when, after) })
}

func (l lab) discount(cell string) v1alpha1.Discount {
	l.Helper()
	p := l.Protector()
	for i := range p.Status.Cells {
		if p.Status.Cells[i].CellID == cell {
			return p.Status.Cells[i].Discount
		}
	}
	l.Fatalf("the protector knows nothing of cell %s: %+v", cell, p.Status)
	return ""
}

func TestAWorkersDataPlaneIsGone(t *testing.T) {
	claim(t, "its pods count for nothing in the other cells, so that those keep the floor by themselves, until it is back", func(l lab) {
		l.protect(4, 8)
		lost, left := l.Cells[1].Name, l.Cells[:1]
		l.setWhenStale(lost, v1alpha1.WhenStaleDiscount, 20*time.Second)
		l.awaitVouching(lost)
		v := l.watch(4, left...)
		faults := l.faults(l.worker(1))
		l.bringBack(l.worker(1))
		l.kill(l.worker(1))
		l.Eventually(func() string {
			if got := l.discount(lost); got != v1alpha1.DiscountStale {
				return fmt.Sprintf("cell %s is discounted as %q", lost, got)
			}
			return ""
		})
		l.awaitCondition(&v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: lost}}, v1alpha1.ConditionAggregationFresh, metav1.ConditionFalse, v1alpha1.ReasonNoHeartbeat)
		l.awaitEvent(lost, v1alpha1.ReasonNoHeartbeat)
		end := v.siege()
		for _, evict := range []bool{false, true} {
			l.awaitRefusal(0, evict, "/web", "floor 4, available 4")
		}
		if got := end().Counts(); got.Refused == 0 || got.Admitted > 0 {
			l.Errorf("the siege of the cell that is left: %+v", got)
		}

		for _, component := range faults.Components() {
			l.Must(faults.Restart(l.Context(), component))
		}
		l.awaitCondition(&v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: lost}}, v1alpha1.ConditionAggregationFresh, metav1.ConditionTrue, v1alpha1.ReasonHeartbeatSeen)
		l.AwaitSummary(e2e.AllAvailable(8))
		v.conclude() // the cells keep the floor together again
		l.watch(4).wantExhausted("/web")
		l.setWhenStale(lost, v1alpha1.WhenStaleTrust, time.Minute)
	})
}

// awaitVouching waits until the aggregator of a cell has heard of the Cell as it is now: it says so with its next report.
func (l lab) awaitVouching(cell string) {
	l.Helper()
	l.Eventually(func() string {
		c := &v1alpha1.Cell{}
		l.Must(l.Core.Get(l.Context(), client.ObjectKey{Name: cell}, c))
		for _, condition := range c.Status.Conditions {
			if condition.Type == v1alpha1.ConditionReady && condition.ObservedGeneration == c.Generation {
				return ""
			}
		}
		return "the aggregator of cell " + cell + " has not reported since its Cell was changed"
	})
}

func TestTheWebhookConfigurationIsErased(t *testing.T) {
	claim(t, "it is found and told within a minute, what went unasked tightens the budget, and it can be put back", func(l lab) {
		l.protect(6, 8)
		cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.Cells[0].Name}}
		l.awaitCondition(cell, v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured)
		l.Cleanup(func() { _ = l.Breakwater.ConfigureWorker(context.WithoutCancel(l.Context()), l.worker(0)) }) // for the tests after it
		l.erase(l.worker(0), 1, "validatingwebhookconfigurations/breakwater")
		erased := time.Now()
		// Nobody is asked in this cell any more: this is what the table calls not covered.
		l.Eventually(func() string { return e2e.Word(l.dryRun(l.Cells[0])) })
		for _, pod := range l.Pods(l.Cells[0])[:3] {
			l.Must(l.Remove(l.Cells[0], pod.Name))
		}
		l.awaitCondition(cell, v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonWebhookMissing)
		l.Logf("told after %s", time.Since(erased).Round(time.Millisecond))
		l.awaitEvent(cell.Name, v1alpha1.ReasonWebhookMissing)
		l.AwaitSummary(e2e.AllAvailable(5)) // until they are counted nobody knows that they went
		// The cells that are guarded answer for those that are not.
		v := l.watch(5)
		l.awaitRefusal(1, false, "/web", "floor 6, available 5")
		l.wantRefusal(l.removeAny(1, true), "/web", "floor 6, available 5")

		l.Must(l.Breakwater.ConfigureWorker(l.Context(), l.worker(0)))
		l.Eventually(func() string { return refused(l.dryRun(l.Cells[0]), "/web", "floor 6, available 5") })
		l.awaitCondition(cell, v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured)
		l.wantRefusalsEverywhere("/web", "floor 6, available 5")
		again := l.App(4)
		again.Instance = "again"
		l.Must(again.DeployBare(l.Context(), l.Cells))
		v.awaitAvailable(9)
		v.conclude()
		l.watch(6).wantExhausted("/web")
	})
}

// dryRun asks for the removal of a pod of a cell that is not to happen.
func (l lab) dryRun(cell storm.Cell) error {
	l.Helper()
	pods := l.Pods(cell)
	return cell.Client.CoreV1().Pods(l.Namespace).Delete(l.Context(), pods[0].Name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
}
