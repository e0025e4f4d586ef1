package aggregator

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// When an escrow ends, a lagging snapshot still shows pods whose removal it has admitted without naming them.
func TestEndOfEscrowUsesLiveList(t *testing.T) {
	w := newTransitionTest(t)
	w.changeSpec(wholeApp)
	w.clock = w.clock.Add(simulatedInFlight)
	w.aggregate(t, 2, 0)
	w.clock = w.clock.Add(simulatedInFlight)
	w.aggregate(t, 4, 0)
	p := w.stored.DeepCopy()
	quota.CellOf(p, simulatedCellName).AdmissionHistory.Escrows = []v1alpha1.Escrow{{Holder: "stopped", Count: 1, Stamp: 1}}
	w.store(p)
	w.aggregate(t, 4, 1)
	w.clock = w.clock.Add(simulatedInFlight - 1)
	w.aggregate(t, 4, 1)
	w.remove("back-0")
	w.clock = w.clock.Add(1)
	p = w.stored.DeepCopy()
	if _, err := w.newest().reconciler.aggregate(t.Context(), w.key(), p); err != nil { // the snapshot has not received that event
		t.Fatal(err)
	}
	if got := quota.BudgetOf(p); got.Available != 3 || got.Reserved != 0 {
		t.Errorf("the budget is %+v, want the 3 pods that live and nothing reserved", got)
	}
}
