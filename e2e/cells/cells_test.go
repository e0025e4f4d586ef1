// Package cells_test tests Breakwater without flags that name cells: the webhooks and one aggregator for all cells follow the core's Cells.
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

func TestStormOverDiscoveredCells(t *testing.T) {
	suite.Claim(t, "the floor holds exactly when the aggregator of all cells is killed, and no budget is lost", func(l *e2e.Fixture) {
		e2e.FaultStorm{Pods: 60, FloorsByCore: []int{40}, DuringStorm: func(l *e2e.Fixture, load *storm.Storm) {
			l.WaitForRequests(load, 20)
			aggregator := install.SharedAggregatorName(l.Core.Name)
			l.Must(l.Breakwater.Kill(aggregator))
			l.Must(l.Breakwater.Restart(l.Context(), aggregator))
		}}.Run(l)
	})
}

func TestCellIsDeletedAndRecreated(t *testing.T) {
	suite.Claim(t, "its pods count and can be removed exactly while its Cell exists, without a restart", func(l *e2e.Fixture) {
		const floor = 3
		l.CreateProtector(floor)
		l.CreateBarePods(l.Application(8))
		remainingCell, deletedCell := l.Cells[0], l.Cells[1]
		remainingPods, deletedCellPods := len(l.ExistingPods(remainingCell)), len(l.ExistingPods(deletedCell))

		cell := &v1alpha1.Cell{}
		l.Must(l.Core.Get(l.Context(), client.ObjectKey{Name: deletedCell.Name}, cell))
		l.Must(l.Core.Delete(l.Context(), cell))
		waitForCells(l, remainingPods, remainingCell.Name)
		l.Eventually(func() string {
			err := l.Core.Get(l.Context(), client.ObjectKeyFromObject(cell), &v1alpha1.Cell{})
			if client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Sprintf("the Cell still exists: %v", err)
			}
			return ""
		})
		l.Eventually(func() string {
			if err := l.DeletePod(deletedCell, "none"); err == nil {
				return "deleting a pod that does not exist succeeded, want an error"
			}
			if err := l.EvictPod(deletedCell, l.ExistingPods(deletedCell)[0].Name); err == nil {
				return "a pod of an unknown cell was evicted"
			}
			return ""
		})
		if got := len(l.ExistingPods(deletedCell)); got != deletedCellPods {
			l.Errorf("%d pods exist in the unknown cell, want all %d", got, deletedCellPods)
		}
		for ; remainingPods > floor; remainingPods-- {
			l.Eventually(func() string { return e2e.ErrorText(l.DeletePod(remainingCell, l.ExistingPods(remainingCell)[0].Name)) })
		}
		waitForCells(l, floor, remainingCell.Name)
		l.ExpectDenial(l.DeletePod(remainingCell, l.ExistingPods(remainingCell)[0].Name), fmt.Sprintf("floor %d, available %d", floor, floor))

		back := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: cell.Name}, Spec: cell.Spec}
		l.Must(l.Core.Create(l.Context(), back))
		waitForCells(l, floor+deletedCellPods, remainingCell.Name, deletedCell.Name)
		for range deletedCellPods {
			l.Eventually(func() string { return e2e.ErrorText(l.DeletePod(deletedCell, l.ExistingPods(deletedCell)[0].Name)) })
		}
		waitForCells(l, floor, remainingCell.Name, deletedCell.Name)
		l.ExpectDenial(l.DeletePod(remainingCell, l.ExistingPods(remainingCell)[0].Name), fmt.Sprintf("floor %d, available %d", floor, floor))
		select {
		case err := <-l.Breakwater.Died():
			l.Error(err)
		default:
		}
	})
}

// waitForCells waits until the protector has entries of exactly these cells, the given number of available pods, and no reservation.
func waitForCells(l *e2e.Fixture, available int, cells ...string) {
	l.Helper()
	l.Eventually(func() string {
		p := l.GetProtector()
		observed := map[string]bool{}
		for i := range p.Status.Cells {
			observed[p.Status.Cells[i].CellID] = true
		}
		for _, cell := range cells {
			if !observed[cell] {
				return fmt.Sprintf("the protector has the cells %v, want %v", observed, cells)
			}
		}
		if got := p.Status.Summary; len(observed) != len(cells) || int(got.Available) != available || got.Reserved != 0 {
			return fmt.Sprintf("the protector has the cells %v with summary %+v, want %v and %d", observed, got, cells, available)
		}
		return ""
	})
}
