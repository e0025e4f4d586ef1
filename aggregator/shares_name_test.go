package aggregator

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// Several cells may be in one cluster, each with a share of the same protector.
func TestCellsOfOneClusterHaveSharesOfTheirOwn(t *testing.T) {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}
	byName := func(o client.Object) []string { return []string{o.(*v1alpha1.PodProtector).Spec.ShareOf.Name} }
	stored := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithIndex(p, shareOfName, byName).Build()
	found := map[string]bool{}
	for _, cell := range []string{"a", "b"} {
		k := &shareKeeper{cell: cell, shares: stored}
		if err := k.create(t.Context(), p, false); err != nil {
			t.Fatalf("create the share of cell %s: %v", cell, err)
		}
		share, err := k.find(t.Context(), p)
		if err != nil || share == nil || share.Spec.ShareOf.Cell != cell {
			t.Fatalf("the share of cell %s is %+v, error %v", cell, share, err)
		}
		found[share.Name] = true
	}
	if len(found) != 2 {
		t.Errorf("shares %v, want one for each cell", found)
	}
}
