package shares

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// lateCache is a cache of the cluster of a cell whose watch is late: it shows the shares as they were.
type lateCache struct {
	client.Client
	shown *v1alpha1.PodProtectorList
}

// List implements client.Reader.
func (c lateCache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if shares, ok := list.(*v1alpha1.PodProtectorList); ok {
		c.shown.DeepCopyInto(shares)
		return nil
	}
	return c.Client.List(ctx, list, options...)
}

// stallWatch lets the watch of a cell's shares stop until the function that it returns is called.
func (s *sharedCells) stallWatch(cell string) (resume func()) {
	s.Helper()
	shown := &v1alpha1.PodProtectorList{}
	if err := s.shares[cell].List(s.Context(), shown); err != nil {
		s.Fatal(err)
	}
	keeper := s.keepers[cell]
	keeper.Shares = lateCache{s.shares[cell], shown}
	return func() { keeper.Shares = s.shares[cell] }
}

// write does what an aggregator does with a protector of which it has counted pods in a cell. unfinished lets it stop before the second write.
func (s *sharedCells) write(cell string, pods int32, unfinished bool) {
	s.Helper()
	next := s.p.DeepCopy()
	counts := &quota.CellOf(next, cell).Aggregation
	counts.CountedReplicas, counts.CountedSpec = pods, quota.CountedSpec(&next.Spec)
	finish, err := s.keepers[cell].prepare(s.Context(), s.p.DeepCopy(), next)
	if IsOutdated(err) {
		return
	} else if err != nil {
		s.Fatal(err)
	}
	s.p = next
	if finish == nil || unfinished {
		return
	}
	if err := finish(s.Context()); err != nil && !IsOutdated(err) {
		s.Fatal(err)
	}
}

// admit decides on removals of pods of a cell.
func (s *sharedCells) admit(p *v1alpha1.PodProtector, cell string, pods ...string) {
	s.Helper()
	for _, name := range pods {
		removal := quota.Removal{Cell: cell, PodUID: types.UID(name), PodName: name, Operation: v1alpha1.OperationDelete, Token: name}
		if v := quota.Decide(p, []quota.Removal{removal})[0]; !v.Outcome.Admitted() {
			s.Fatalf("the removal of pod %s is not admitted: %s", name, v.Outcome)
		}
	}
}

// The reservations that a protector made between Leave and Enter are in the share when it opens, also if a leader still sees the share as it was
// before (rule S6).
func TestLateWatchLosesNoReservationsOfAnEnteringCell(t *testing.T) {
	s := newSharedCells(t, 6, 5, "a", "b")
	resume := s.stallWatch("a")
	s.keepers["a"].Shares = s.shares["a"]
	shown := s.share("a")
	s.p.Spec.CoreOutage = v1alpha1.CoreOutageDeny
	for range 3 {
		s.write("a", 5, false)
	}
	s.admit(s.p, "a", "1", "2")
	s.p.Spec.CoreOutage = v1alpha1.CoreOutageLocalShare
	for i := 0; quota.CellOf(s.p, "a").Share == nil && i < 3; i++ {
		s.write("a", 5, true) // the leader stops before it opens the share
	}
	if quota.Open(&quota.CellOf(s.p, "a").AdmissionHistory) != 2 {
		t.Fatalf("the protector has %+v, want a recorded share and two reservations", quota.CellOf(s.p, "a"))
	}
	s.keepers["a"].Shares = lateCache{s.shares["a"], &v1alpha1.PodProtectorList{Items: []v1alpha1.PodProtector{*shown}}}
	s.write("a", 5, false)
	resume()
	for range 4 {
		s.write("a", 5, false)
	}
	share := s.share("a")
	if open := quota.Open(&quota.CellOf(share, "a").AdmissionHistory); share.Spec.ShareOf.Closed || open != 2 {
		t.Errorf("the share is closed: %v, with %d reservations, want an open one with 2", share.Spec.ShareOf.Closed, open)
	}
}

// When pods of a cell die, the others rely on what is left beside the removals that its share has admitted, also if a cache hides these (rule S4).
func TestLateWatchHidesNoRemovalsBesideDeadPods(t *testing.T) {
	s := newSharedCells(t, 6, 5, "a", "b")
	s.stallWatch("a")
	share := s.share("a")
	s.admit(share, "a", "1", "2")
	if err := s.shares["a"].Status().Update(t.Context(), share); err != nil {
		t.Fatal(err)
	}
	s.write("a", 3, false)
	if left := quota.SharesOf(s.p, 0).Cells[0].Kept(); left != 1 {
		t.Errorf("the others rely on %d pods of a, want 1: it has 3, and 2 are being removed", left)
	}
}

// Removals that a share admitted just before it was closed count as well, until the protector has their reservations (rule S4).
func TestReservationsOfAClosedShareAreRecorded(t *testing.T) {
	s := newSharedCells(t, 6, 5, "a", "b")
	share := s.share("a")
	s.admit(share, "a", "1", "2")
	if err := s.shares["a"].Status().Update(t.Context(), share); err != nil {
		t.Fatal(err)
	}
	share.Spec.ShareOf.Closed = true
	if err := s.shares["a"].Update(t.Context(), share); err != nil {
		t.Fatal(err)
	}
	s.write("a", 3, true)
	if left := quota.SharesOf(s.p, 0).Cells[0].Kept(); left != 1 {
		t.Errorf("the others rely on %d pods of a, want 1: it has 3, and 2 are being removed", left)
	}
}

// A cell that leaves closes its share before the protector decides for it, also if a cache does not show the share (rule S6).
func TestLateWatchLeavesNoShareOpen(t *testing.T) {
	s := newSharedCells(t, 6, 5, "a", "b")
	s.keepers["a"].Shares = lateCache{s.shares["a"], &v1alpha1.PodProtectorList{}}
	s.p.Spec.CoreOutage = v1alpha1.CoreOutageDeny
	s.write("a", 5, false)
	if entry, share := quota.CellOf(s.p, "a"), s.share("a"); entry.Share == nil && !share.Spec.ShareOf.Closed {
		t.Errorf("the protector decides for a (%+v), whose share is open with a floor of %v", entry, share.Spec.MinAvailable)
	}
}

// A protector that is recreated, or whose core was restored, decides for a cell only if no share of it is open, also if a cache shows none (rule S6).
func TestLateWatchLetsNoRecreatedProtectorDecideBesideAShare(t *testing.T) {
	s := newSharedCells(t, 6, 5, "a", "b")
	s.keepers["a"].Shares = lateCache{s.shares["a"], &v1alpha1.PodProtectorList{}}
	before := s.p.DeepCopy()
	quota.DropCell(before, "a")
	next := s.p.DeepCopy()
	quota.CellOf(next, "a").Share = nil
	if _, err := s.keepers["a"].prepare(t.Context(), before, next); err == nil && quota.CellOf(next, "a").Share == nil {
		t.Errorf("the protector counts a without a share, while that is open: %+v", quota.CellOf(next, "a"))
	}
}

// While the floor is unknown, shares admit no removal, and afterwards until they keep it.
func TestSharesAdmitNothingWhileTheFloorIsUnknown(t *testing.T) {
	s := newSharedCells(t, 4, 5, "a", "b")
	percentage := intstr.FromString("80%")
	s.p.Spec.MinAvailable = &percentage
	s.settle()
	for _, cell := range []string{"a", "b"} {
		if admitted := s.remove(cell); admitted > 0 {
			t.Errorf("the share of %s admits %d removals while the floor is unknown", cell, admitted)
		}
	}
	expected := int32(10)
	s.p.Spec.ExpectedReplicas = &expected
	for _, cell := range s.names { // a step that stops after its first write: the shares do not keep the floor yet
		if err := s.keepers[cell].followSpec(t.Context(), s.p, s.share(cell)); err != nil {
			t.Fatal(err)
		}
		if admitted := s.remove(cell); admitted > 0 {
			t.Errorf("the share of %s admits %d removals before the shares keep the floor", cell, admitted)
		}
	}
	for range 8 {
		for _, cell := range s.names {
			s.step(cell)
			s.remove(cell)
		}
	}
	open := 0
	for _, cell := range s.names {
		open += quota.Open(&quota.CellOf(s.share(cell), cell).AdmissionHistory)
	}
	if open != 2 {
		t.Errorf("the shares have %d reservations after the floor is known, want 2: it is 8 of 10", open)
	}
}

// What remains in each cell after the loss of a domain does not add up to the floor, so a protector that tolerates such a loss gets no shares (rule 12).
func TestProtectorThatToleratesDomainLossHasNoShares(t *testing.T) {
	s := newSharedCells(t, 8, 5, "a", "b", "c")
	s.p.Spec.Spread = &v1alpha1.Spread{TopologyKey: v1alpha1.TopologyKeyCell, TolerateDomainLoss: true}
	for range 3 {
		s.step("a")
	}
	removal := quota.Removal{Cell: "a", PodUID: "x", PodName: "x", Operation: v1alpha1.OperationDelete, Token: "x"}
	if v := quota.Decide(s.p.DeepCopy(), []quota.Removal{removal})[0]; v.Outcome != quota.DeniedDomainLoss {
		t.Errorf("a removal in a is %s while b still decides on a share, want %s: without c, b may keep no more than its share", v.Outcome, quota.DeniedDomainLoss)
	}
	s.settle()
	for _, cell := range s.names {
		if s.share(cell) != nil || quota.HasShare(s.p, cell) {
			t.Errorf("cell %s has a share: %+v", cell, s.share(cell))
		}
	}
}

// Several cores may have protectors of one name, each with a share of its own in the cell.
func TestCoresWithProtectorsOfOneNameHaveSharesOfTheirOwn(t *testing.T) {
	first, second := newSharedCells(t, 2, 5, "a"), newSharedCells(t, 3, 5, "a")
	second.p.UID, first.p.Finalizers, second.p.Finalizers = "q", nil, nil
	second.shares = first.shares
	keepers, gone := map[*sharedCells]*Keeper{}, fake.NewClientBuilder().WithScheme(clusters.Scheme()).Build()
	for core, s := range map[string]*sharedCells{"core-1": first, "core-2": second} {
		keeper := s.keepers["a"]
		keepers[s] = &Keeper{
			Cell: "a", Shares: first.shares["a"], Live: first.shares["a"], Core: gone, Version: keeper.Version, CoreUID: keeper.CoreUID, Current: keeper.Current, Draining: keeper.Draining, Log: logr.Discard(),
		}
		keepers[s].CoreUID = core
		s.keepers = map[string]*Keeper{"a": keepers[s]}
	}
	second.p.Status.Cells[0].Share = nil
	for range 6 {
		first.write("a", 5, false)
		second.write("a", 5, false)
	}
	all, open := &v1alpha1.PodProtectorList{}, map[string]string{}
	if err := first.shares["a"].List(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		if of := all.Items[i].Spec.ShareOf; !of.Closed {
			open[of.UID] = of.Core
		}
	}
	if len(open) != 2 || open["p"] != "core-1" || open["q"] != "core-2" {
		t.Errorf("open shares %v, want one of each core", open)
	}
	if err := keepers[second].Release(t.Context(), client.ObjectKeyFromObject(second.p)); err != nil {
		t.Fatal(err)
	}
	if share := first.share("a"); share == nil || share.Spec.ShareOf.UID != "p" {
		t.Errorf("after the second core has released its protector, the share is %+v, want that of the first", share)
	}
}

// A changed spec reaches the share in the write that records the counts of the new spec, and keeps no step from happening in it (rule S6).
func TestChangedSpecReachesTheShareOfARestoredProtector(t *testing.T) {
	s := newSharedCells(t, 6, 5, "a", "b")
	s.p.Spec.MinReadySeconds = 7
	before := s.p.DeepCopy()
	quota.CellOf(before, "a").Share = nil
	quota.VoidCounts(&quota.CellOf(before, "a").Aggregation)
	next := s.p.DeepCopy()
	quota.CellOf(next, "a").Share = nil
	_, err := s.keepers["a"].prepare(t.Context(), before, next)
	if err != nil && !IsOutdated(err) {
		t.Fatal(err)
	}
	if share := s.share("a"); share.Spec.MinReadySeconds != 7 {
		t.Errorf("the share has minReadySeconds %d, want 7", share.Spec.MinReadySeconds)
	}
	if err == nil && quota.CellOf(next, "a").Share == nil {
		t.Errorf("the protector counts a without a share, while that is open: %+v", quota.CellOf(next, "a"))
	}
}
