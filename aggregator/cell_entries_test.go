package aggregator

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Otherwise a later Cell with the same pods would count those whose removal may still take effect.
func TestDrainingCellKeepsEntryWithReservations(t *testing.T) {
	w := newSimulatedCell(1, 0)
	w.lead()
	leader := w.newest()
	leader.reconciler.entries.draining.Store(true)
	p := w.stored.DeepCopy()
	p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: simulatedCellName, AdmissionHistory: v1alpha1.AdmissionHistory{Buckets: []v1alpha1.Bucket{{PodUID: "uid-1", Counter: 1}}}}}
	leader.reconciler.entries.drain(p)
	if cell := quota.CellOf(p, simulatedCellName); cell == nil || cell.Discount != v1alpha1.DiscountDraining || len(cell.AdmissionHistory.Buckets) != 1 {
		t.Fatalf("drain() leaves %+v, want the entry with its reservation, draining", p.Status.Cells)
	}
	p.Status.Cells[0].AdmissionHistory.Buckets = nil
	leader.reconciler.entries.drain(p)
	if len(p.Status.Cells) > 0 {
		t.Errorf("drain() leaves %+v, want no entry", p.Status.Cells)
	}
}

// The topology controller has released the Cell, or will when no protector has an entry. No component would ever remove a new entry.
func TestDeletedCellGetsNoEntry(t *testing.T) {
	now := metav1.Now()
	cell := func(change func(*v1alpha1.Cell)) *v1alpha1.Cell {
		c := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: simulatedCellName, UID: "cell-1"}}
		change(c)
		return c
	}
	for claim, c := range map[string]struct {
		cell *v1alpha1.Cell
		err  error
		want int
	}{
		"a Cell that exists":            {cell(func(*v1alpha1.Cell) {}), nil, 1},
		"a Cell that is being deleted":  {cell(func(c *v1alpha1.Cell) { c.DeletionTimestamp = &now }), nil, 0},
		"a Cell that was created again": {cell(func(c *v1alpha1.Cell) { c.UID = "cell-2" }), nil, 0},
		"a Cell that does not exist":    {nil, apierrors.NewNotFound(schema.GroupResource{}, simulatedCellName), 0},
		"a core that cannot be reached": {nil, errors.New("connection refused"), -1},
	} {
		t.Run(claim, func(t *testing.T) {
			w := newSimulatedCell(1, 0)
			w.create(true)
			w.lead()
			w.newest().enqueuer.informer = toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &v1alpha1.PodProtector{}, 0, toolscache.Indexers{})
			w.newest().reconciler.entries.readCell = func(context.Context) (*v1alpha1.Cell, uint64, error) { return c.cell, 0, c.err }
			w.passTime(openCheckInterval)
			err := w.beginAggregation(w.newest())
			if (err != nil) != (c.want < 0) {
				t.Fatalf("aggregate() = %v", err)
			}
			if c.want >= 0 && len(w.pending[0].new.Status.Cells) != c.want {
				t.Errorf("entries %+v, want %d", w.pending[0].new.Status.Cells, c.want)
			}
		})
	}
}

// The pod was removed after its reservation was cleared, and the watch has not reported it.
func TestClearedEntryIsRecountedFromLiveList(t *testing.T) {
	w := newSimulatedCell(1, 0)

	w.create(true)
	w.create(true)
	w.lead()
	count := func() {
		t.Helper()
		if err := w.beginAggregation(w.newest()); err != nil {
			t.Fatal(err)
		}
		w.finishAggregation(len(w.pending) - 1)
		if err := w.check(); err != nil {
			t.Fatal(err)
		}
	}
	count()
	w.review(w.pods["uid-1"], v1alpha1.OperationDelete)
	if len(w.inFlight) != 1 {
		t.Fatal("the removal was not admitted")
	}
	w.clearEntry()
	count()
	w.lead() // its first list is from before the end of the pod, and recent enough for the protectors that initialCounts.expect records
	w.newest().reconciler.pods.initial.counts.Set(w.key(), &initialCount{uid: w.stored.UID, spec: quota.CountedSpec(&w.stored.Spec)})
	count()
	w.takeEffect(0, false)
	w.passTime(simulatedDeadline)
	count()
	if cell := w.stored.Status.Cells[0]; cell.Discount != "" || cell.Aggregation.CountedReplicas != 1 {
		t.Errorf("when the deadline has passed the cell is %+v", cell)
	}
}
