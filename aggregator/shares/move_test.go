package shares

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// The reservations of a cell go with its decisions, from the protector to the share and back (rules S2 and S3).
func TestReservationsMoveWithTheDecisions(t *testing.T) {
	const cellName = "a"
	p := &v1alpha1.PodProtector{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "p"},
		Spec:       v1alpha1.PodProtectorSpec{MinAvailable: v1alpha1.Pods(1), CoreOutage: v1alpha1.CoreOutageLocalShare},
	}
	p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: cellName}}
	cell := &p.Status.Cells[0]
	reserved := []types.UID{"1", "2", "3"}
	for _, uid := range reserved {
		cell.AdmissionHistory.Buckets = append(cell.AdmissionHistory.Buckets, v1alpha1.Bucket{PodUID: uid, PodName: "pod-" + string(uid), Counter: 1})
	}
	k := &Keeper{Cell: cellName, Shares: fakeShares(), Core: fakeShares()}
	find := func() *v1alpha1.PodProtector {
		t.Helper()
		share, err := k.find(t.Context(), k.Shares, p)
		if err != nil || share == nil {
			t.Fatalf("the share is %v: %v", share, err)
		}
		return share
	}
	expect := func(where string, h *v1alpha1.AdmissionHistory) {
		t.Helper()
		found := map[quota.UIDHash]bool{}
		for r := range quota.Reservations(h) {
			found[r.Hash] = true
		}
		for _, uid := range reserved {
			if !found[quota.HashUID(uid)] {
				t.Errorf("%s has no reservation of pod %s", where, uid)
			}
		}
	}
	if err := k.create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := k.open(t.Context(), p, find(), 1); err != nil {
		t.Fatal(err)
	}
	opened := find()
	if opened.Spec.ShareOf.Closed {
		t.Error("the share is closed after it was opened")
	}
	expect("the opened share", &quota.CellOf(opened, cellName).AdmissionHistory)

	cell.AdmissionHistory = v1alpha1.AdmissionHistory{}
	if err := k.leave(t.Context(), cell, opened); err != nil {
		t.Fatal(err)
	}
	if !find().Spec.ShareOf.Closed {
		t.Error("the share is open after its cell left")
	}
	expect("the protector that decides again", &cell.AdmissionHistory)
}

// A removal that was repeated after its cell has left must wait for the admission deadline of the repetition, also when the cell enters again and its
// closed share still has the reservation of the first attempt (rules 4(b) and S6).
func TestEnteringKeepsTheLaterTimeOfAReservation(t *testing.T) {
	const deadline = 65 * time.Second
	s := newSharedCells(t, 6, 5, "a", "b")
	start := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	attempt := func(p *v1alpha1.PodProtector, at time.Duration, token string) {
		t.Helper()
		removal := quota.Removal{
			Cell: "a", PodUID: types.UID("1"), PodName: "1", Operation: v1alpha1.OperationDelete, Token: token, At: start.Add(at),
		}
		if v := quota.Decide(p, []quota.Removal{removal})[0]; !v.Outcome.Admitted() {
			t.Fatalf("the removal is not admitted: %s", v.Outcome)
		}
	}
	var timers quota.Deadlines // those of the aggregator that counts for the share
	observe := func(at time.Duration) {
		t.Helper()
		timers.Observe(&quota.CellOf(s.share("a"), "a").AdmissionHistory, start.Add(at))
	}

	share := s.share("a")
	attempt(share, 0, "first")
	if err := s.shares["a"].Status().Update(t.Context(), share); err != nil {
		t.Fatal(err)
	}
	observe(0)
	s.p.Spec.CoreOutage = v1alpha1.CoreOutageDeny
	s.write("a", 5, false) // Leave. Then the aggregator is cut off from the core for a while.
	if quota.HasShare(s.p, "a") {
		t.Fatal("the cell has not left")
	}
	quota.CellOf(s.p, "a").Aggregation.CountedSpec = quota.CountedSpec(&s.p.Spec)
	attempt(s.p, 50*time.Second, "second") // the client repeats the removal: the protector admits it
	s.p.Spec.CoreOutage = v1alpha1.CoreOutageLocalShare
	for range 3 {
		s.write("a", 5, false)
	}
	share = s.share("a")
	if !quota.HasShare(s.p, "a") || share.Spec.ShareOf.Closed {
		t.Fatal("the cell has not entered again")
	}
	observe(60 * time.Second)
	for r := range quota.Reservations(&quota.CellOf(share, "a").AdmissionHistory) {
		if want := start.Add(50 * time.Second); r.Stamp.Before(want) {
			t.Errorf("the share has the reservation of %v, want that of the repetition, %v", r.Stamp, want)
		}
		if timers.HasPassed(r, deadline, start.Add(66*time.Second)) {
			t.Error("the reservation may be dropped 16 s after the repetition was admitted, which may take effect for 65 s")
		}
	}
}

// The reverse: a removal that was repeated while the cell decided on its share keeps its later time when the cell leaves, also if the write of the protector
// conflicts with another one, so that the share is closed already (rules 4(b) and S6).
func TestLeavingKeepsTheLaterTimeOfAReservation(t *testing.T) {
	for claim, conflict := range map[string]bool{"at once": false, "after a conflict": true} {
		t.Run(claim, func(t *testing.T) {
			s := newSharedCells(t, 6, 5, "a", "b")
			start := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
			attempt := func(p *v1alpha1.PodProtector, at time.Duration) {
				t.Helper()
				removal := quota.Removal{Cell: "a", PodUID: "1", PodName: "1", Operation: v1alpha1.OperationDelete, Token: at.String(), At: start.Add(at)}
				if v := quota.Decide(p, []quota.Removal{removal})[0]; !v.Outcome.Admitted() {
					t.Fatalf("the removal is not admitted: %s", v.Outcome)
				}
			}
			s.p.Spec.CoreOutage = v1alpha1.CoreOutageDeny
			for range 3 {
				s.write("a", 5, false)
			}
			attempt(s.p, 0)
			s.p.Spec.CoreOutage = v1alpha1.CoreOutageLocalShare
			for i := 0; i < 4 && !quota.HasShare(s.p, "a"); i++ {
				s.write("a", 5, false)
			}
			share := s.share("a")
			if !quota.HasShare(s.p, "a") || share.Spec.ShareOf.Closed {
				t.Fatal("the cell has not entered")
			}
			// The aggregator is cut off from the core for a while. The client repeats the removal.
			if own := quota.CellOf(share, "a"); own != nil {
				own.Aggregation.CountedSpec, own.Aggregation.CountedReplicas = quota.CountedSpec(&share.Spec), 5
			}
			attempt(share, 50*time.Second)
			if err := s.shares["a"].Status().Update(t.Context(), share); err != nil {
				t.Fatal(err)
			}
			s.p.Spec.CoreOutage = v1alpha1.CoreOutageDeny
			if conflict {
				if _, err := s.keepers["a"].prepare(t.Context(), s.p.DeepCopy(), s.p.DeepCopy()); err != nil && !IsOutdated(err) {
					t.Fatal(err)
				}
			}
			for range 3 {
				s.write("a", 5, false)
			}
			if quota.HasShare(s.p, "a") {
				t.Fatal("the cell has not left")
			}
			for r := range quota.Reservations(&quota.CellOf(s.p, "a").AdmissionHistory) {
				if want := start.Add(50 * time.Second); r.Stamp.Before(want) {
					t.Errorf("the protector has the reservation of %v, whose deadline may have passed, want that of the repetition, %v", r.Stamp, want)
				}
			}
		})
	}
}

// Reservations of an escrow have no pods yet, and cannot move (rule S6).
func TestNoShareOpensBesideAnEscrow(t *testing.T) {
	s := newSharedCells(t, 1, 5, "a", "b")
	s.shares["a"] = fakeShares()
	s.keepers["a"].Shares, s.keepers["a"].Live = s.shares["a"], s.shares["a"]
	entry := quota.CellOf(s.p, "a")
	entry.Share, entry.AdmissionHistory.Escrows = nil, []v1alpha1.Escrow{{Holder: "one", Count: 1, Stamp: 1}}
	s.settle()
	if entry := quota.CellOf(s.p, "a"); entry.Share != nil || quota.Escrowed(&entry.AdmissionHistory) != 1 {
		t.Errorf("the cell has the share %+v and the escrows %v, want the escrow alone", entry.Share, entry.AdmissionHistory.Escrows)
	}
	quota.CellOf(s.p, "a").AdmissionHistory.Escrows = nil
	s.settle()
	if quota.CellOf(s.p, "a").Share == nil {
		t.Error("the cell has no share after the escrow has ended")
	}
}
