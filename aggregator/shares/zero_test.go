package shares

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// A user deletes the copy of a Cell in a worker, and the aggregator that counts for shares drains it. Until it has counted again, a share of 0 admits nothing that
// it does not record: it can rise at any time, and then other cells rely on its pods (rule S1).
func TestDrainedShareOfZeroAdmitsNothingUnrecorded(t *testing.T) {
	const floor, pods = 1, 1
	s := newSharedCells(t, floor, pods, "a", "b")
	zero, other := "a", "b"
	if s.share("a").Spec.MinAvailable.IntValue() != 0 {
		zero, other = other, zero
	}
	share := s.share(zero)
	if share.Spec.MinAvailable.IntValue() != 0 || share.Spec.ShareOf.Closed {
		t.Fatalf("the shares are %v and %v, want one of 0", s.share("a").Spec.MinAvailable, s.share("b").Spec.MinAvailable)
	}
	Drain(share, zero, 0)
	if quota.CellOf(share, zero) != nil {
		t.Fatal("the entry of the share was not drained")
	}
	if err := s.shares[zero].Status().Update(t.Context(), share); err != nil {
		t.Fatal(err)
	}

	removed := 0
	remove := func(cell string) {
		t.Helper()
		share := s.share(cell)
		removal := quota.Removal{Cell: cell, PodUID: types.UID(cell), PodName: cell, Operation: v1alpha1.OperationDelete, Token: cell}
		verdict := quota.Decide(share, []quota.Removal{removal})[0]
		t.Logf("removal in %s by a share of %v: %s", cell, share.Spec.MinAvailable, verdict.Outcome)
		if verdict.Outcome.Admitted() {
			removed++
		}
		if err := s.shares[cell].Status().Update(t.Context(), share); err != nil { // also that it wants budget
			t.Fatal(err)
		}
	}
	remove(zero) // admitted, and under way
	remove(other)
	s.settle() // the Cell exists again, its pods are counted, and budget moves to the other cell
	remove(other)
	if left := 2*pods - removed; left < floor {
		t.Errorf("%d pods are left when all admitted removals have taken effect, want the floor of %d", left, floor)
	}
}

// The CustomResourceDefinition accepts a share with maxUnavailable. It must not end the aggregator, which counts for all protectors of the cell.
func TestShareWithoutMinAvailableIsNoPanic(t *testing.T) {
	defer func() {
		if fault := recover(); fault != nil {
			t.Errorf("the aggregator panics: %v", fault)
		}
	}()
	p := &v1alpha1.PodProtector{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "p"},
		Spec:       v1alpha1.PodProtectorSpec{MinAvailable: v1alpha1.Pods(1), CoreOutage: v1alpha1.CoreOutageLocalShare},
	}
	p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "a"}}
	k := &Keeper{Cell: "a", Shares: fakeShares(), Core: fakeShares()}
	k.Live = k.Shares
	spec := k.shareSpec(p)
	one := intstr.FromInt32(1)
	spec.MinAvailable, spec.MaxUnavailable = nil, &one
	share := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "made-by-hand"}, Spec: *spec}
	if err := k.Shares.Create(t.Context(), share); err != nil {
		t.Fatal(err)
	}
	k.Draining = func() bool { return false }
	if _, err := k.prepare(t.Context(), p.DeepCopy(), p); err != nil && !IsOutdated(err) {
		t.Fatal(err)
	}
}
