package quota_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// A cell with a share counts for min(share, available - reserved) in the budget of other cells. The oracle adds that up by itself.
func TestCellsWithSharesCountForTheirShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string) int32 { return rapid.Int32Range(0, 9).Draw(t, name) }
		p := protector(number("floor"), number("a"), number("b"), number("c"))
		kept := 0
		for i := range p.Status.Cells {
			cell := &p.Status.Cells[i]
			left := int(cell.Aggregation.CountedReplicas)
			if open := number("reserved"); i > 0 && rapid.Bool().Draw(t, "shared") {
				cell.Share = &v1alpha1.CellShare{Floor: number("share"), Reserved: open}
				left = min(int(cell.Share.Floor), left-int(open))
			}
			kept += left
		}
		floor := int(p.Spec.MinAvailable.IntVal)
		for i := range p.Status.Cells {
			got, want := quota.Decide(p.DeepCopy(), []quota.Removal{removal(fmt.Sprint("c", i), "pod")})[0].Outcome, quota.DeniedNoBudget
			switch {
			case p.Status.Cells[i].Share != nil:
				want = quota.DeniedShared
			case floor == 0 || kept > floor:
				want = quota.Reserved
			}
			if got != want {
				t.Fatalf("removal in cell %d: Decide() = %s, want %s; %d pods are kept, floor %d: %+v", i, got, want, kept, floor, p.Status.Cells)
			}
		}
	})
}

// A share records that it wants budget, once until it has some, and a closed one decides nothing.
func TestShareRecordsThatItWantsBudget(t *testing.T) {
	p := protector(5, 5)
	p.Spec.ShareOf = &v1alpha1.ShareOf{Cell: "c0"}
	removals := []quota.Removal{removal("c0", "a"), removal("c0", "b")}
	for round, want := range []bool{true, false} {
		if records := quota.RecordsWanted(p); records != want {
			t.Errorf("round %d: RecordsWanted() = %v, want %v", round, records, want)
		}
		quota.Decide(p, removals)
		if p.Status.Wanted != 2 {
			t.Errorf("round %d: %d are wanted, want 2", round, p.Status.Wanted)
		}
	}
	p.Spec.MinAvailable = v1alpha1.Pods(4)
	if quota.Summarize(p); p.Status.Wanted != 0 {
		t.Errorf("%d are wanted with a budget of 1, want 0", p.Status.Wanted)
	}
	p.Spec.ShareOf.Closed = true
	if got := outcomes(quota.Decide(p, removals)); !slices.Equal(got, []quota.Outcome{quota.DeniedShared, quota.DeniedShared}) {
		t.Errorf("Decide() on a closed share = %v", got)
	}
}

// Merging is idempotent, and loses no reservation.
func TestMergeReservations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		threshold := rapid.Int32Range(0, 4).Draw(t, "threshold")
		history := func(name string) v1alpha1.AdmissionHistory {
			p := withThreshold(protector(0, 99), threshold)
			for _, uid := range rapid.SliceOfNDistinct(rapid.IntRange(0, 12), 0, 8, rapid.ID).Draw(t, name) {
				quota.Decide(p, []quota.Removal{removal("c0", fmt.Sprint(uid))})
				quota.Compact(p, "c0", start)
			}
			return p.Status.Cells[0].AdmissionHistory
		}
		a, b := history("a"), history("b")
		merged := *a.DeepCopy()
		for range 2 {
			quota.MergeReservations(&merged, &b)
		}
		if quota.HasMore(&a, &merged) || quota.HasMore(&b, &merged) {
			t.Fatal("MergeReservations() has lost a reservation")
		}
		want := map[quota.UIDHash]bool{}
		for _, h := range []*v1alpha1.AdmissionHistory{&a, &b} {
			for r := range quota.Reservations(h) {
				want[r.Hash] = true
			}
		}
		if got := quota.Open(&merged); got != len(want) {
			t.Fatalf("%d reservations after MergeReservations(), want %d", got, len(want))
		}
	})
}
