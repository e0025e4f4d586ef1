package quota_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

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

// A restore may have brought back a floor of zero of a share. A protector with that floor needs no counts.
func TestRestoredShareAdmitsNothing(t *testing.T) {
	for _, of := range []*v1alpha1.ShareOf{nil, {Cell: "c0"}} {
		p := protector(0, 5)
		p.Spec.ShareOf = of
		quota.VoidCounts(&p.Status.Cells[0].Aggregation)
		want := quota.DeniedRestored
		if of == nil {
			want = quota.Reserved
		}
		if got := quota.Decide(p, []quota.Removal{removal("c0", "a")})[0].Outcome; got != want {
			t.Errorf("share %v: Decide() = %s, want %s", of, got, want)
		}
	}
}

// Merging is idempotent, and loses no reservation.
func TestMergeReservations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		threshold := rapid.Int32Range(0, 4).Draw(t, "threshold")
		history := func(name string) v1alpha1.AdmissionHistory {
			p := withThreshold(protector(0, 99), threshold)
			for _, uid := range rapid.SliceOfNDistinct(rapid.IntRange(0, 12), 0, 8, rapid.ID).Draw(t, name) {
				one := removal("c0", fmt.Sprint(uid))
				one.At = start.Add(time.Duration(rapid.IntRange(-9, 0).Draw(t, "at")) * time.Second)
				if rapid.Bool().Draw(t, "relabel") {
					one.Operation, one.PodVersion = v1alpha1.OperationRelabel, rapid.Int64Range(1, 9).Draw(t, "version")
				}
				quota.Decide(p, []quota.Removal{one})
				quota.Compact(p, "c0", start)
			}
			return p.Status.Cells[0].AdmissionHistory
		}
		a, b := history("a"), history("b")
		merged := *a.DeepCopy()
		for range 2 {
			quota.MergeReservations(&merged, &b)
		}
		if quota.CountMore(&a, &merged) > 0 || quota.CountMore(&b, &merged) > 0 {
			t.Fatal("MergeReservations() has lost a reservation")
		}
		want := map[quota.UIDHash]bool{}
		got := map[quota.UIDHash]quota.Reservation{}
		for r := range quota.Reservations(&merged) {
			got[r.Hash] = r
		}
		for _, h := range []*v1alpha1.AdmissionHistory{&a, &b} {
			for r := range quota.Reservations(h) {
				want[r.Hash] = true
				// A reservation with a version ends when the pod has a later one; one without when the pod is gone.
				if now := got[r.Hash]; now.Stamp.Before(r.Stamp) || now.Relabel > 0 && (r.Relabel == 0 || now.Relabel < r.Relabel) {
					t.Fatalf("MergeReservations() made %+v of %+v", now, r)
				}
			}
		}
		if got := quota.Open(&merged); got != len(want) {
			t.Fatalf("%d reservations after MergeReservations(), want %d", got, len(want))
		}
	})
}

// After a restore of the core, only what has been recorded since counts, whichever cell noticed the restore first (rule S5).
func TestSharesOfRestoredCore(t *testing.T) {
	const bumped = 1_000_000_000
	for claim, c := range map[string]struct {
		term     string
		restored uint64
		want     bool
	}{
		"recorded, and no restore":                         {term: "100"},
		"not recorded since the protector was recreated":   {term: "", want: true},
		"recorded before the restore":                      {term: "100", restored: bumped + 200, want: true},
		"recorded since the restore":                       {term: fmt.Sprint(bumped + 300), restored: bumped + 200},
		"recorded before another cell noticed the restore": {term: fmt.Sprint(bumped + 50), restored: bumped + 200},
	} {
		p := protector(4, 5, 5)
		p.Status.Cells[0].Share = &v1alpha1.CellShare{Floor: 3, TermVersion: c.term}
		p.Status.Cells[1].Aggregation.TermVersion = c.term
		shares := quota.SharesOf(p, c.restored)
		if got := shares.IsVoid("c0"); got != c.want {
			t.Errorf("%s: the share is void: %v, want %v", claim, got, c.want)
		}
		if got, want := shares.IsVoid("c1"), c.want && c.restored > 0; got != want || want && shares.Cells[1].Available != 0 {
			t.Errorf("%s: the counts are void: %v, want %v, %d pods", claim, got, want, shares.Cells[1].Available)
		}
		p.Status.Cells = quota.RestoredCells(&p.Status)
		if !quota.SharesOf(p, 0).IsVoid("c0") {
			t.Errorf("%s: a recreated protector has a share that is not void", claim)
		}
	}
}

// A share whose counts are void waits for its protector, unless it was opened since they are (rule S5).
func TestAwaitsConfirmation(t *testing.T) {
	for claim, c := range map[string]struct {
		counts v1alpha1.Aggregation
		want   bool
	}{
		"valid counts":                       {v1alpha1.Aggregation{TermVersion: "9"}, false},
		"void since a later term":            {v1alpha1.Aggregation{TermVersion: "9", Void: true}, true},
		"void since the term of its opening": {v1alpha1.Aggregation{TermVersion: "7", Void: true}, false},
	} {
		if got := quota.AwaitsConfirmation(&v1alpha1.ShareOf{ConfirmedTerm: "7"}, &c.counts); got != c.want {
			t.Errorf("%s: AwaitsConfirmation() = %v, want %v", claim, got, c.want)
		}
	}
}
