package aggregator

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// cellsAt reads a Cell from a cluster that is at a version.
type cellsAt struct {
	client.Reader
	version string
	cell    *v1alpha1.Cell
}

// List implements client.Reader.
func (r cellsAt) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.SetResourceVersion(r.version)
	if cells, ok := list.(*v1alpha1.CellList); ok && r.cell != nil {
		cells.Items = []v1alpha1.Cell{*r.cell}
	}
	return nil
}

// A restored cluster brings back what a share was at its backup. An aggregator may see that before the aggregator that counts for shares has (rule S5).
func TestShareOfRestoredClusterIsNotConfirmed(t *testing.T) {
	const restored = "1000000200"
	counted := func(seen, restored string) *v1alpha1.Cell {
		cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		cell.Status.Aggregator = v1alpha1.CellAggregator{Epoch: 1, SeenVersion: seen, RestoredVersion: restored}
		return cell
	}
	for name, test := range map[string]struct {
		cell *v1alpha1.Cell
		// version is that of the cluster, and term that of the counts of the share.
		version, term string
		want          bool
	}{
		"the cluster was never restored":           {counted("200", ""), "210", "100", true},
		"it was restored, and nothing noticed it":  {counted("200", ""), restored, "100", false},
		"it was restored without the advice":       {counted("200", ""), "190", "100", false},
		"the share is not marked yet":              {counted(restored, restored), restored, "100", false},
		"the share was counted after that":         {counted(restored, restored), restored, "1000000201", true},
		"the share was never counted":              {counted("200", ""), "210", "", false},
		"no aggregator has counted for shares yet": {&v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, "210", "100", false},
		"the copy of the Cell was lost":            {nil, "210", "100", false},
	} {
		t.Run(name, func(t *testing.T) {
			share := &v1alpha1.PodProtector{}
			share.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "a", Aggregation: v1alpha1.Aggregation{TermVersion: test.term}}}
			k := &shareKeeper{cell: "a", live: cellsAt{version: test.version, cell: test.cell}}
			if err := k.checkRestored(t.Context(), share); (err == nil) != test.want || err != nil && !isOutdated(err) {
				t.Errorf("checkRestored() = %v, want that the share may be confirmed: %v", err, test.want)
			}
		})
	}
}

// While fewer pods are left in a cell than its share, the other cells rely on the number of its pods. A cache that lags would hide removals (rule S4).
func TestShareWithTooFewPodsIsReadLive(t *testing.T) {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "new"}}
	cached, live := &shareKeeper{cell: "a", shares: fakeShares()}, &shareKeeper{cell: "a", shares: fakeShares()}
	storedShare{uid: "new", open: true, floor: 3}.store(t, cached, p)
	storedShare{uid: "new", open: true, floor: 3, reserved: 2}.store(t, live, p)
	cached.live = live.shares
	for name, test := range map[string]struct {
		share *v1alpha1.CellShare
		want  int
	}{
		"as many pods as its share": {share: &v1alpha1.CellShare{Floor: 3, TermVersion: "1"}},
		"fewer":                     {share: &v1alpha1.CellShare{Floor: 3, TermVersion: "1", Reserved: 1}, want: 2},
		"no share":                  {},
		"a share of a lost history": {share: &v1alpha1.CellShare{Floor: 3, Reserved: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			before := p.DeepCopy()
			before.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "a", Share: test.share, Aggregation: v1alpha1.Aggregation{
				CountedSpec: quota.CountedSpec(&p.Spec), CountedReplicas: 3, TermVersion: "1",
			}}}
			stored, err := cached.find(t.Context(), p)
			if err == nil {
				stored, err = cached.refresh(t.Context(), quota.SharesOf(before, 0), stored)
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := quota.Open(&stored.Status.Cells[0].AdmissionHistory); got != test.want {
				t.Errorf("the share has %d reservations, want %d", got, test.want)
			}
		})
	}
}
