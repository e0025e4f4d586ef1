package shares

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
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
			k := &Keeper{Cell: "a", Live: cellsAt{version: test.version, cell: test.cell}}
			if err := k.checkRestored(t.Context(), share); (err == nil) != test.want || err != nil && !IsOutdated(err) {
				t.Errorf("checkRestored() = %v, want that the share may be confirmed: %v", err, test.want)
			}
		})
	}
}
