// Package cells_test tests Breakwater where no flag names a cell: webhooks, and one aggregator of all, follow the core's Cells.
package cells_test

import (
	"fmt"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

var suite = e2e.NewSuite("federated", func(o *install.Options) { o.CellsByObjects = true })

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

func TestAStormOverCellsThatNoFlagNames(t *testing.T) {
	suite.Claim(t, "the floor holds to the pod, also when the aggregator of all cells is killed, and no budget is lost", func(l *e2e.Lab) {
		e2e.Tempest{Pods: 60, Floors: []int{40}, During: func(l *e2e.Lab, gale *storm.Storm) {
			l.AwaitRequests(gale, 20)
			aggregator := install.FleetAggregatorName(l.Core.Name)
			l.Must(l.Breakwater.Kill(aggregator))
			l.Must(l.Breakwater.Restart(l.Context(), aggregator))
		}}.Rage(l)
	})
}

func TestACellGoesAndComesBack(t *testing.T) {
	suite.Claim(t, "its pods count and may be removed exactly while its Cell is there, and nothing is restarted", func(l *e2e.Lab) {
		const floor = 3
		l.Protect(floor)
		l.DeployBare(l.App(8))
		stays, goes := l.Cells[0], l.Cells[1]
		here, there := len(l.Pods(stays)), len(l.Pods(goes))

		cell := &v1alpha1.Cell{}
		l.Must(l.Core.Get(l.Context(), client.ObjectKey{Name: goes.Name}, cell))
		l.Must(l.Core.Delete(l.Context(), cell))
		awaitCells(l, here, stays.Name)
		l.Eventually(func() string {
			err := l.Core.Get(l.Context(), client.ObjectKeyFromObject(cell), &v1alpha1.Cell{})
			if client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Sprintf("the Cell is not gone: %v", err)
			}
			return ""
		})
		l.Eventually(func() string {
			if err := l.Remove(goes, "none"); err == nil {
				return "a removal of nothing succeeds"
			}
			if err := l.Evict(goes, l.Pods(goes)[0].Name); err == nil {
				return "a pod of a cell that nobody knows was evicted"
			}
			return ""
		})
		if got := len(l.Pods(goes)); got != there {
			l.Errorf("%d pods live in the cell that nobody knows, want all %d", got, there)
		}
		for ; here > floor; here-- {
			l.Eventually(func() string { return e2e.Word(l.Remove(stays, l.Pods(stays)[0].Name)) })
		}
		awaitCells(l, floor, stays.Name)
		l.WantRefusal(l.Remove(stays, l.Pods(stays)[0].Name), fmt.Sprintf("floor %d, available %d", floor, floor))

		back := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: cell.Name}, Spec: cell.Spec}
		l.Must(l.Core.Create(l.Context(), back))
		awaitCells(l, floor+there, stays.Name, goes.Name)
		for range there {
			l.Eventually(func() string { return e2e.Word(l.Remove(goes, l.Pods(goes)[0].Name)) })
		}
		awaitCells(l, floor, stays.Name, goes.Name)
		l.WantRefusal(l.Remove(stays, l.Pods(stays)[0].Name), fmt.Sprintf("floor %d, available %d", floor, floor))
		select {
		case err := <-l.Breakwater.Died():
			l.Error(err)
		default:
		}
	})
}

// awaitCells waits until the protector knows these cells and no other, and that many available pods in them.
func awaitCells(l *e2e.Lab, available int, cells ...string) {
	l.Helper()
	l.Eventually(func() string {
		p := l.Protector()
		known := map[string]bool{}
		for i := range p.Status.Cells {
			known[p.Status.Cells[i].CellID] = true
		}
		for _, cell := range cells {
			if !known[cell] {
				return fmt.Sprintf("the protector knows the cells %v, want %v", known, cells)
			}
		}
		if got := p.Status.Summary; len(known) != len(cells) || int(got.Available) != available || got.Reserved != 0 {
			return fmt.Sprintf("the protector knows the cells %v, of which the summary is %+v; want %v and %d", known, got, cells, available)
		}
		return ""
	})
}
