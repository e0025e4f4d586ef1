package shares

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// The reservations of a share that another client deleted are unknown, also if its cell leaves after the share was created again, and before it was opened
// (rules S6 and 10).
func TestLeavingByARecreatedShareForgetsNoRemovals(t *testing.T) {
	for claim, unfinished := range map[string]bool{"the share was created again": false, "and recorded, but not opened": true} {
		t.Run(claim, func(t *testing.T) {
			const floor, pods = 6, 5
			s := newSharedCells(t, floor, pods, "a", "b")
			share := s.share("a")
			removed := s.remove("a")
			if removed != 2 {
				t.Fatalf("the share admits %d removals, want 2", removed)
			}
			s.write("a", pods, false) // the core knows of these reservations
			if err := s.shares["a"].Delete(t.Context(), share); err != nil {
				t.Fatal(err)
			}
			s.write("a", pods, false) // Create
			if again := s.share("a"); again == nil || !again.Spec.ShareOf.Recreated {
				t.Fatalf("the share is %+v, want one that was created again", again)
			}
			if unfinished {
				s.write("a", pods, true) // Enter, without its second write
			}
			s.p.Spec.CoreOutage = v1alpha1.CoreOutageDeny
			for range 3 {
				for _, cell := range s.names {
					s.write(cell, pods, false)
				}
			}
			if quota.HasShare(s.p, "a") || quota.HasShare(s.p, "b") {
				t.Fatal("the cells have not left")
			}
			for i := range pods {
				uid := types.UID(fmt.Sprintf("b-%d", i))
				removal := quota.Removal{Cell: "b", PodUID: uid, PodName: string(uid), Operation: v1alpha1.OperationDelete, Token: string(uid)}
				if quota.Decide(s.p, []quota.Removal{removal})[0].Outcome.Admitted() {
					removed++
				}
			}
			if left := 2*pods - removed; left < floor {
				t.Errorf("%d pods are left when all admitted removals have taken effect, want the floor of %d; void: %v", left, floor, quota.CellOf(s.p, "a").Aggregation.Void)
			}
		})
	}
}

// The reservations of a share that another client deleted are unknown. When pods of its cell die, the other cells must not rely on pods that are being
// removed by them (rule S4).
func TestOtherSharesDoNotRelyOnPodsOfALostShare(t *testing.T) {
	for claim, deleted := range map[string]bool{"the share exists": false, "the share was deleted and created again": true} {
		t.Run(claim, func(t *testing.T) {
			const floor, pods, dead = 6, 5, 2
			s := newSharedCells(t, floor, pods, "a", "b")
			removed := s.remove("a")
			s.write("a", pods, false)
			if deleted {
				if err := s.shares["a"].Delete(t.Context(), s.share("a")); err != nil {
					t.Fatal(err)
				}
				for range 3 { // create, record and open it
					s.write("a", pods, false)
				}
				if share := s.share("a"); share == nil || share.Spec.ShareOf.Closed {
					t.Fatalf("the share is %+v, want an open one", share)
				}
			}
			for range 4 {
				s.write("a", pods-dead, false) // a snapshot shows that pods died
				s.step("b")
			}
			if removed += s.remove("b"); 2*pods-dead-removed < floor {
				t.Errorf("%d pods are left when all admitted removals have taken effect, want the floor of %d: %+v", 2*pods-dead-removed, floor, s.p.Status.Cells[0].Share)
			}
		})
	}
}

// What a share admitted just before another client deleted it is in no object. Its record may rise only by pods that it certainly keeps. Otherwise another
// cell lowers its share by as many (rule S4).
func TestRecordOfALostShareDoesNotRiseByPodsBeingRemoved(t *testing.T) {
	for claim, c := range map[string]struct{ recorded, void, late bool }{
		"the core recorded the reservations":               {recorded: true},
		"the core did not":                                 {},
		"and its counts are void at the deletion":          {void: true},
		"and a late process creates it, without its entry": {late: true},
	} {
		t.Run(claim, func(t *testing.T) {
			const floor, pods = 6, 5
			s := newSharedCells(t, floor, pods, "a", "b")
			removed := s.remove("a") + s.remove("b")
			if removed != 4 {
				t.Fatalf("the shares admit %d removals, want 4", removed)
			}
			if c.recorded {
				s.write("a", pods, false)
			}
			counted := int32(pods)
			if c.void {
				quota.VoidCounts(&quota.CellOf(s.p, "a").Aggregation)
				counted = 0
			}
			if err := s.shares["a"].Delete(t.Context(), s.share("a")); err != nil {
				t.Fatal(err)
			}
			if c.late {
				late := s.p.DeepCopy()
				quota.CellOf(late, "a").Share = nil
				if err := s.keepers["a"].create(t.Context(), late); err != nil {
					t.Fatal(err)
				}
			}
			s.write("a", counted, false) // create it
			s.write("a", counted, false) // record and open it
			if share := s.share("a"); share == nil || share.Spec.ShareOf.Closed || !quota.CellOf(share, "a").Aggregation.Void {
				t.Fatalf("the share is %+v, want an open one without valid counts", share)
			}
			s.write("b", pods-2, false) // the aggregator of the core counts the removals in b before the reservations are dropped
			s.count("a", pods)          // so the share of a may rise, if it has budget
			s.write("a", pods, false)
			share := s.share("b")
			own := quota.CellOf(share, "b")
			own.Aggregation.CountedReplicas, own.AdmissionHistory, share.Status.Wanted = pods-2, v1alpha1.AdmissionHistory{}, 1
			if err := s.shares["b"].Status().Update(t.Context(), share); err != nil {
				t.Fatal(err)
			}
			for range 4 {
				s.write("b", pods-2, false)
				s.write("a", pods, false)
			}
			if removed += s.remove("b"); 2*pods-removed < floor {
				t.Errorf("%d pods are left when all admitted removals have taken effect, want the floor of %d: %+v", 2*pods-removed, floor, s.p.Status.Cells[0].Share)
			}
		})
	}
}

// count writes counts of a cell that are valid again, and takes the first write of the next step of its share.
func (s *sharedCells) count(cell string, pods int32) {
	s.Helper()
	next := s.p.DeepCopy()
	counts := &quota.CellOf(next, cell).Aggregation
	counts.Void, counts.CountedReplicas, counts.CountedSpec = false, pods, quota.CountedSpec(&next.Spec)
	if _, err := s.keepers[cell].prepare(s.Context(), s.p.DeepCopy(), next); err != nil {
		s.Fatal(err)
	}
	s.p = next
}

// denyingCreation is the cluster of a cell that creates no shares.
type denyingCreation struct {
	client.Client
	err error
}

// Create implements client.Writer.
func (c denyingCreation) Create(context.Context, client.Object, ...client.CreateOption) error {
	return c.err
}

// A user deletes a namespace in a worker, and with it the share. No share can be created there, and the pods of the namespace die. The core must hear of that,
// or the other cells rely on pods that do not exist (rule S4).
func TestPodsThatDieAreCountedWhereNoShareCanBeCreated(t *testing.T) {
	for claim, denial := range map[string]error{
		"the namespace is being deleted": &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
		}},
		"the namespace does not exist": apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop"),
	} {
		t.Run(claim, func(t *testing.T) {
			const floor, pods = 6, 5
			s := newSharedCells(t, floor, pods, "a", "b")
			if err := s.shares["a"].Delete(t.Context(), s.share("a")); err != nil {
				t.Fatal(err)
			}
			k := s.keepers["a"]
			k.Shares = denyingCreation{s.shares["a"], denial}
			left := int32(pods)
			for range 5 {
				left-- // a pod of a dies
				next := s.p.DeepCopy()
				counts := &quota.CellOf(next, "a").Aggregation
				counts.CountedReplicas, counts.CountedSpec = left, quota.CountedSpec(&next.Spec)
				if _, err := k.prepare(t.Context(), s.p.DeepCopy(), next); err == nil { // otherwise reconciler.write stores nothing
					s.p = next
				}
				s.step("b")
			}
			s.settle("a")
			if counted := quota.CellOf(s.p, "a").Aggregation.CountedReplicas; counted != left {
				t.Errorf("the core counts %d pods of a, which has %d", counted, left)
			}
			if admitted := s.remove("b"); admitted > 0 {
				t.Errorf("b admits %d removals of its %d pods, which are all that are left of a floor of %d", admitted, pods, floor)
			}
			for range 3 { // pods of b that are more than the floor
				quota.CellOf(s.p, "b").Aggregation.CountedReplicas = floor + 1
				s.step("b")
			}
			if admitted := s.remove("b"); admitted != 1 {
				t.Errorf("b admits %d of its %d pods, want 1: a lost share needs no pods of other cells for those that it may be removing", admitted, floor+1)
			}
		})
	}
}

// If a share cannot be read or written, for whatever reason, the protector gets no more of the counts than that pods have died.
func TestFailedStepOfAShareStoresFewerPodsAlone(t *testing.T) {
	entry := func(pods int32) *v1alpha1.PodProtector {
		p := &v1alpha1.PodProtector{}
		p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "b"}, {
			CellID: "a", Aggregation: v1alpha1.Aggregation{CountedSpec: "spec", CountedReplicas: pods}, Share: &v1alpha1.CellShare{Floor: 3, Reserved: 1},
		}}
		return p
	}
	for claim, c := range map[string]struct {
		stored, counted, want int32
		share                 *v1alpha1.CellShare
		reserved              int32
	}{
		"pods died":                           {stored: 5, counted: 3, want: 3, reserved: 1},
		"pods came":                           {stored: 5, counted: 7, want: 5, reserved: 1},
		"the share was lost with removals":    {stored: 5, counted: 5, want: 5, share: &v1alpha1.CellShare{Floor: 4, Reserved: 2}, reserved: 2},
		"fewer removals are known by a write": {stored: 5, counted: 5, want: 5, share: &v1alpha1.CellShare{Floor: 4}, reserved: 1},
	} {
		before, p, want := entry(c.stored), entry(c.counted), entry(c.want)
		p.Status.Cells[1].Share = c.share // of a step that has failed
		want.Status.Cells[1].Share.Reserved = c.reserved
		lowerCounts(before, p, "a")
		if diff := cmp.Diff(want.Status, p.Status); diff != "" {
			t.Errorf("%s: the entry (-want +got):\n%s", claim, diff)
		}
	}
	p := entry(3)
	lowerCounts(&v1alpha1.PodProtector{}, p, "a")
	if quota.CellOf(p, "a") != nil {
		t.Errorf("the protector has an entry of a cell that could not enter: %+v", p.Status.Cells)
	}
}

// A worker need not have each namespace of the core. The protectors of the others must be counted there all the same, and cost no requests.
func TestCellWithoutTheNamespaceIsCounted(t *testing.T) {
	s := newSharedCells(t, 6, 5, "b")
	s.p.Status.Cells = append(s.p.Status.Cells, v1alpha1.PodProtectorCell{CellID: "a", Aggregation: v1alpha1.Aggregation{CountedSpec: quota.CountedSpec(&s.p.Spec)}})
	k, shares := s.keepers["b"], fakeShares()
	copied := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: k.Current().Spec}
	if err := shares.Create(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	k = &Keeper{
		Cell: "a", Shares: denyingCreation{shares, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop")}, Live: k.Live, Version: k.Version,
		Current: k.Current, Draining: k.Draining, Log: k.Log,
	}
	before := s.p.DeepCopy()
	quota.DropCell(before, "a")
	if _, err := k.prepare(t.Context(), before, s.p.DeepCopy()); IsOutdated(err) {
		t.Errorf("the step is tried again every %s, and the counts of the cell are never written: %v", ShareRetryInterval, err)
	}
}
