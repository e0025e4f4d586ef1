package aggregator

import (
	"testing"

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
	k := &shareKeeper{cell: cellName, shares: fakeShares()}
	find := func() *v1alpha1.PodProtector {
		t.Helper()
		share, err := k.find(t.Context(), k.shares, p)
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
	if err := k.create(t.Context(), p, false); err != nil {
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
