package shares

import (
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// An aggregator that may not read which core it is for releases no share of another core, which it cannot tell from its own.
func TestUnknownCoreReleasesNoShareOfAnotherCore(t *testing.T) {
	s := newSharedCells(t, 2, 5, "a")
	s.p.Finalizers = nil // the keeper of that core does not hold the protector (yet)
	s.write("a", 5, false)
	own := s.keepers["a"]
	other := &Keeper{
		Cell: "a", Shares: own.Shares, Live: own.Live, Core: fake.NewClientBuilder().WithScheme(clusters.Scheme()).Build(),
		Version: own.Version, Current: own.Current, Draining: own.Draining, Log: logr.Discard(),
	}
	if err := other.Release(t.Context(), client.ObjectKeyFromObject(s.p)); err != nil { // as it does at its start, for all shares of the cell
		t.Fatal(err)
	}
	if s.share("a") == nil {
		t.Error("the aggregator of a core without such a protector deletes the share of another core")
	}
}

// A share that an aggregator without shareOf.core has made ends as well, if its protector was released while the aggregator was upgraded.
func TestShareOfAnEarlierVersionIsReleased(t *testing.T) {
	s := newSharedCells(t, 2, 5, "a")
	keeper := s.keepers["a"]
	if of := s.share("a").Spec.ShareOf; of.Core != "" || of.Closed {
		t.Fatalf("the share is %+v, want an open one without a core", of)
	}
	core := fake.NewClientBuilder().WithScheme(clusters.Scheme()).Build()
	if err := clusters.RecordRelease(t.Context(), core, s.p, "test"); err != nil {
		t.Fatal(err)
	}
	keeper.Core, keeper.CoreUID = core, "core" // the new version knows which core this is
	if err := keeper.Release(t.Context(), client.ObjectKeyFromObject(s.p)); err != nil {
		t.Fatal(err)
	}
	if share := s.share("a"); share != nil {
		t.Errorf("the share of a released protector stays in force: %+v", share.Spec.ShareOf)
	}
}

// Two cores have protectors of one name. While the aggregators of the first one are of a version without shareOf.core, those of the second one, which were
// upgraded, leave its shares alone.
func TestUpgradedCoreTakesNoShareOfACoreThatIsNot(t *testing.T) {
	first, second := newSharedCells(t, 2, 5, "a"), newSharedCells(t, 3, 5, "a")
	second.p.UID = "q"
	second.p.Status.Cells[0].Share = nil
	second.shares = first.shares
	keeper := second.keepers["a"]
	core := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithObjects(second.p.DeepCopy()).Build()
	second.keepers["a"] = &Keeper{
		Cell: "a", Shares: first.shares["a"], Live: first.shares["a"], Core: core, Version: keeper.Version, CoreUID: keeper.CoreUID, Current: keeper.Current, Draining: keeper.Draining, Log: keeper.Log,
	}
	second.keepers["a"].CoreUID = "core-2"
	for range 6 {
		second.write("a", 5, false)
	}
	all := &v1alpha1.PodProtectorList{}
	if err := first.shares["a"].List(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		if of := all.Items[i].Spec.ShareOf; of.UID == "p" && !of.Closed {
			return
		}
	}
	t.Errorf("the open share of the first core is gone: %+v", all.Items)
}
