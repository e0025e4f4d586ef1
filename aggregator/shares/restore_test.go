package shares

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
func (r cellsAt) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	cells, ok := list.(*v1alpha1.CellList)
	if !ok {
		return r.Reader.List(ctx, list, options...)
	}
	list.SetResourceVersion(r.version)
	if r.cell != nil {
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
			k := &Keeper{Cell: "a", Live: cellsAt{version: test.version, cell: test.cell}}
			if err := k.checkRestored(t.Context(), share); (err == nil) != test.want || err != nil && !IsOutdated(err) {
				t.Errorf("checkRestored() = %v, want that the share may be confirmed: %v", err, test.want)
			}
		})
	}
}

// A restore of the core can bring back an escrow from before a share was opened. The open share must be recorded all the same with the first count
// (simulation, 35 of shares): otherwise the protector and the share decide on the same pods (rule S6).
func TestRestoredEscrowHidesNoOpenShare(t *testing.T) {
	for claim, outage := range map[string]v1alpha1.CoreOutage{
		"the protector has shares": v1alpha1.CoreOutageLocalShare, "it has none any more": v1alpha1.CoreOutageDeny,
	} {
		t.Run(claim, func(t *testing.T) {
			const pods = 5
			s := newSharedCells(t, 6, pods, "a", "b")
			share := s.share("a")
			own := quota.CellOf(share, "a")
			own.Aggregation.TermVersion = "150"
			if err := s.shares["a"].Status().Update(t.Context(), share); err != nil {
				t.Fatal(err)
			}
			cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			cell.Status.Aggregator = v1alpha1.CellAggregator{Epoch: 1, SeenVersion: "200"}
			s.keepers["a"].Live = cellsAt{s.shares["a"], "210", cell}

			s.p.Spec.CoreOutage = outage
			entry := quota.CellOf(s.p, "a")
			entry.Share, entry.AdmissionHistory.Escrows = nil, []v1alpha1.Escrow{{Holder: "one", Count: 1, Stamp: 1}}
			quota.VoidCounts(&entry.Aggregation)
			next := s.p.DeepCopy()
			entry = quota.CellOf(next, "a")
			entry.Aggregation.Void, entry.Aggregation.CountedReplicas, entry.Aggregation.CountedSpec = false, pods, quota.CountedSpec(&next.Spec)
			finish, err := s.stepShare("a", next)
			if err != nil {
				t.Fatal(err)
			}
			if finish != nil {
				t.Error("the write of the share follows that of the protector, want it before")
			}
			if isOpen := !s.share("a").Spec.ShareOf.Closed; isOpen && entry.Share == nil {
				t.Error("the share is open, and the protector does not record it")
			}
			if entry.Share != nil && (entry.AdmissionHistory.Escrows == nil || len(entry.AdmissionHistory.Escrows) > 0) {
				t.Errorf("the escrows beside the open share are %#v, want an empty list, which the API server admits", entry.AdmissionHistory.Escrows)
			}
			if entry.Share == nil && quota.Escrowed(&entry.AdmissionHistory) != 1 {
				t.Errorf("the escrows after the cell has left are %v, want those before", entry.AdmissionHistory.Escrows)
			}
		})
	}
}
