package topology

import (
	"context"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// staleClient reads Cells from a cache that is behind, and all else from the API server.
type staleClient struct {
	client.Client
	cells []v1alpha1.Cell
}

func (s staleClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if cells, ok := list.(*v1alpha1.CellList); ok {
		cells.Items = s.cells
		return nil
	}
	return s.Client.List(ctx, list, options...)
}

// newStaleReconciler returns a reconciler whose cache shows some Cells, while the API server has other objects.
func newStaleReconciler(shown []v1alpha1.Cell, stored ...client.Object) *Reconciler {
	live := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithObjects(stored...).WithStatusSubresource(&v1alpha1.PodProtector{}).Build()
	return &Reconciler{
		Client: staleClient{live, shown}, Live: live, Events: events.NewFakeRecorder(10), Monotonic: time.Now, cellStates: map[string]cellState{},
	}
}

// newCountedProtector returns a protector with a floor of 3 and five pods in each of two cells.
func newCountedProtector(dead, other *v1alpha1.CellShare) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{}, v1alpha1.Pods(3)
	for name, share := range map[string]*v1alpha1.CellShare{"dead": dead, "other": other} {
		counts := v1alpha1.Aggregation{CountedReplicas: 5, CountedSpec: quota.CountedSpec(&p.Spec), TermVersion: "5"}
		p.Status.Cells = append(p.Status.Cells, v1alpha1.PodProtectorCell{CellID: name, Share: share, Aggregation: counts})
	}
	return p
}

// The other cells' shares are of the history that a restore of the core has ended, which a late cache does not show. They do not keep the floor.
func TestDeadCellIsNotClearedByVoidShares(t *testing.T) {
	for claim, c := range map[string]struct {
		restored string
		left     int
	}{
		"the core was restored":     {strconv.FormatUint(quota.RestoreLeap+10, 10), 2},
		"the core was not restored": {"", 1},
	} {
		t.Run(claim, func(t *testing.T) {
			p := newCountedProtector(nil, &v1alpha1.CellShare{Floor: 3, TermVersion: "5"})
			p.Annotations = map[string]string{v1alpha1.AnnotationRemoveCell: "dead"}
			other := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
			shown := *other.DeepCopy()
			other.Status.Aggregator.RestoredVersion = c.restored
			r := newStaleReconciler([]v1alpha1.Cell{shown}, other, p)
			if _, err := (Clearer{r}).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)}); err != nil {
				t.Fatal(err)
			}
			stored := &v1alpha1.PodProtector{}
			if err := r.Live.Get(t.Context(), client.ObjectKeyFromObject(p), stored); err != nil || len(stored.Status.Cells) != c.left {
				t.Errorf("the protector has the entries %+v, %v, want %d", stored.Status.Cells, err, c.left)
			}
		})
	}
}

// A user makes a Cell discounted when stale, and another leader discounts it. A late cache still shows that its counts are trusted.
func TestDiscountStaysUntilTheCellTrustsItsCounts(t *testing.T) {
	for claim, c := range map[string]struct {
		stored v1alpha1.WhenStale
		uid    string
		want   v1alpha1.Discount
	}{
		"the Cell is discounted": {v1alpha1.WhenStaleDiscount, "1", v1alpha1.DiscountStale},
		"the Cell is trusted":    {v1alpha1.WhenStaleTrust, "1", ""},
		"another Cell":           {v1alpha1.WhenStaleTrust, "2", v1alpha1.DiscountStale},
	} {
		t.Run(claim, func(t *testing.T) {
			p := newCountedProtector(nil, nil)
			quota.CellOf(p, "dead").Discount = v1alpha1.DiscountStale
			shown := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "dead", UID: "1"}}
			stored := shown.DeepCopy()
			stored.UID, stored.Spec.WhenStale = types.UID(c.uid), c.stored
			r := newStaleReconciler(nil, stored, p)
			if err := r.applyDiscount(t.Context(), shown, report{}); err != nil {
				t.Fatal(err)
			}
			if err := r.Live.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil || quota.CellOf(p, "dead").Discount != c.want {
				t.Errorf("the entries are %+v, %v, want the discount %q", p.Status.Cells, err, c.want)
			}
		})
	}
}

// An aggregator waits before it counts a cleared entry again. It would not wait for a new one.
func TestClearedEntryOfALiveCellStays(t *testing.T) {
	deleted := metav1.Now()
	for claim, c := range map[string]struct {
		uid     string
		deleted *metav1.Time
		left    int
	}{
		"another Cell was created":      {"2", nil, 2},
		"a restore undid the deletion":  {"1", nil, 2},
		"the Cell is being deleted":     {"1", &deleted, 1},
		"another Cell is being deleted": {"2", &deleted, 2},
	} {
		t.Run(claim, func(t *testing.T) {
			p := newCountedProtector(nil, nil)
			clearEntry(quota.CellOf(p, "dead"))
			stored := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{
				Name: "dead", UID: types.UID(c.uid), Finalizers: []string{v1alpha1.FinalizerCell, "example.com/other"}, DeletionTimestamp: c.deleted,
			}}
			r := newStaleReconciler(nil, stored, p)
			shown := stored.DeepCopy()
			shown.UID, shown.DeletionTimestamp = "1", &deleted
			if err := r.releaseCell(t.Context(), shown); err != nil {
				t.Fatal(err)
			}
			if err := r.Live.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil || len(p.Status.Cells) != c.left {
				t.Errorf("the protector has the entries %+v, %v, want %d", p.Status.Cells, err, c.left)
			}
		})
	}
}

// An aggregator that has read the Cell just before its deletion adds an entry just after it.
func TestDeletedCellWaitsForLastEntries(t *testing.T) {
	deleted := metav1.Now()
	cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "dead", UID: "1", Finalizers: []string{v1alpha1.FinalizerCell}, DeletionTimestamp: &deleted}}
	r := newStaleReconciler(nil, cell)
	clock := time.Now()
	r.Monotonic = func() time.Time { return clock }
	exists := func() bool { return r.Live.Get(t.Context(), client.ObjectKeyFromObject(cell), &v1alpha1.Cell{}) == nil }
	for _, waits := range []bool{true, true, false} {
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cell)})
		if err != nil || exists() != waits || result.RequeueAfter <= 0 {
			t.Fatalf("Reconcile() = %+v, %v, and the Cell exists: %v, want %v", result, err, exists(), waits)
		}
		clock = clock.Add(lastEntries / 2)
	}
}
