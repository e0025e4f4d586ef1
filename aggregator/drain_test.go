package aggregator

import (
	"context"
	"testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/quota"
)

// The topology controller has released the Cell, and no component would ever take the entry out.
func TestNoEntryIsMadeForACellThatIsDeleted(t *testing.T) {
	w := newWorld(1, 0)
	w.create(true)
	w.lead()
	w.newest().isOpen = func(context.Context) (bool, error) { return false, nil }
	if err := w.begin(w.newest()); err != nil {
		t.Fatal(err)
	}
	if entries := w.pending[0].new.Status.Cells; len(entries) > 0 {
		t.Errorf("entries %+v, want none", entries)
	}
}

// The pod went by a removal whose reservation was cleared, and the watch has not told of it.
func TestWhatWasClearedIsCountedByALiveList(t *testing.T) {
	w := newWorld(1, 0)

	w.create(true)
	w.create(true)
	w.lead()
	count := func() {
		t.Helper()
		if err := w.begin(w.newest()); err != nil {
			t.Fatal(err)
		}
		w.finish(len(w.pending) - 1)
		if err := w.check(); err != nil {
			t.Fatal(err)
		}
	}
	count()
	w.ask(w.pods["uid-1"], v1alpha1.OperationDelete)
	if len(w.inFlight) != 1 {
		t.Fatal("the removal was not admitted")
	}
	w.clear()
	count()
	w.lead() // its first list is from before the end of the pod, and late enough for what expectFirsts notes
	w.newest().firsts[w.key()] = &first{uid: w.stored.UID, spec: quota.CountedSpec(&w.stored.Spec)}
	count()
	w.takeEffect(0, false)
	w.pass(worldDeadline)
	count()
	if cell := w.stored.Status.Cells[0]; cell.Discount != "" || cell.Aggregation.CountedReplicas != 1 {
		t.Errorf("when the deadline has passed the cell is %+v", cell)
	}
}
