package aggregator

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
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

// The Cell is deleted, and released at once, while a first count reads the pods of a slow cell.
func TestEntryIsNotAddedAfterTheCellWasReleased(t *testing.T) {
	for claim, want := range map[string]int{"the Cell exists": 1, "the Cell was released": 0} {
		t.Run(claim, func(t *testing.T) {
			w := newSimulatedCell(1, 0)
			w.create(true)
			w.lead()
			r := w.newest().reconciler
			r.pods.initial.forget(w.key())
			r.pods.reads.ReadLive = func(_ context.Context, _, selector string) (snapshot.LiveRead, error) {
				w.passTime(openCheckInterval)
				if want == 0 {
					r.entries.readCell = func(context.Context) (*v1alpha1.Cell, uint64, error) {
						return nil, 0, apierrors.NewNotFound(schema.GroupResource{}, simulatedCellName)
					}
				}
				return w.readLive(selector), nil
			}
			p := w.stored.DeepCopy()
			core := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithObjects(p).WithStatusSubresource(p).Build()
			r.enqueuer.rounds, r.writes.protectors = &roundTracer{}, &clusters.Protectors{Cache: core, Live: core, Writer: core}
			r.enqueuer.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]())
			defer r.enqueuer.queue.ShutDown()
			if err := r.reconcile(t.Context(), w.key()); err != nil {
				t.Fatal(err)
			}
			if err := core.Get(t.Context(), w.key(), p); err != nil || len(p.Status.Cells) != want {
				t.Errorf("the protector has the entries %+v, %v, want %d", p.Status.Cells, err, want)
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
	w.passTime(simulatedInFlight)
	count()
	if cell := w.stored.Status.Cells[0]; cell.Discount != "" || cell.Aggregation.CountedReplicas != 1 {
		t.Errorf("when the deadline has passed the cell is %+v", cell)
	}
}
