package aggregator

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/quota"
)

// A core that is restored from a backup gives an epoch a second time. A leader of the lost time, which does not know yet that
// it was deposed, then writes by the very epoch of its successor, and may have seen more of the cell.
func TestACountOfAnotherLeaderIsNotPutBackByAnOlderOne(t *testing.T) {
	w := newWorld(1, 4)
	for range 5 {
		w.create(true)
	}
	w.lead()
	former := w.newest()
	w.aggregateNow(t)
	w.epoch--
	w.lead()
	if former.epoch != w.newest().epoch {
		t.Fatalf("epochs %d and %d, want the same", former.epoch, w.newest().epoch)
	}
	w.ask(w.pods["uid-1"], v1alpha1.OperationDelete)
	w.takeEffect(0, false)
	former.deliver(w.events, len(w.events))
	if err := w.begin(former); err != nil {
		t.Fatal(err)
	}
	w.finish(0)
	if budget := quota.BudgetOf(w.stored); budget.Available != 4 || budget.Reserved != 0 {
		t.Fatalf("the former leader counts %+v, want 4 available and nothing reserved", budget)
	}
	if got := w.aggregateNow(t); got != 4 {
		t.Errorf("%d available by the stream of the new leader, which lags; want 4", got)
	}
	if err := w.check(); err != nil {
		t.Error(err)
	}
}
