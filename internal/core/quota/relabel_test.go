package quota_test

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func relabel(uid string, version int64) quota.Removal {
	r := removal("c0", uid)
	r.Operation, r.PodVersion = v1alpha1.OperationRelabel, version
	return r
}

// Rule 14: of several requests for one pod, the reservation keeps what ends last. A removal outlasts a relabel, and a relabel
// outlasts the version that was reviewed first.
func TestRelabelCombinesWithOtherOperations(t *testing.T) {
	updated := update("a", 2, container("web", 1))
	old := relabel("a", 0) // of a webhook that does not store versions
	for claim, c := range map[string]struct {
		asked  []quota.Removal
		want   int64
		as     v1alpha1.Operation
		update bool
	}{
		"a relabel":                           {[]quota.Removal{relabel("a", 7)}, 7, v1alpha1.OperationRelabel, false},
		"a relabel at a later version":        {[]quota.Removal{relabel("a", 7), relabel("a", 9)}, 9, v1alpha1.OperationRelabel, false},
		"a relabel at an earlier version":     {[]quota.Removal{relabel("a", 9), relabel("a", 7)}, 9, v1alpha1.OperationRelabel, false},
		"a relabel without a version":         {[]quota.Removal{old}, math.MaxInt64, v1alpha1.OperationRelabel, false},
		"a relabel after one without":         {[]quota.Removal{old, relabel("a", 7)}, math.MaxInt64, v1alpha1.OperationRelabel, false},
		"a relabel of a pod to be removed":    {[]quota.Removal{removal("c0", "a"), relabel("a", 7)}, 0, v1alpha1.OperationDelete, false},
		"a removal of a pod to be relabeled":  {[]quota.Removal{relabel("a", 7), removal("c0", "a")}, 0, v1alpha1.OperationDelete, false},
		"a relabel of a pod under update":     {[]quota.Removal{updated, relabel("a", 7)}, 7, v1alpha1.OperationRelabel, true},
		"an update of a pod to be relabeled":  {[]quota.Removal{relabel("a", 7), updated}, 7, v1alpha1.OperationRelabel, true},
		"a relabel, an update and a removal":  {[]quota.Removal{relabel("a", 7), updated, removal("c0", "a")}, 0, v1alpha1.OperationDelete, true},
		"a removal, an update and a relabel":  {[]quota.Removal{removal("c0", "a"), updated, relabel("a", 7)}, 0, v1alpha1.OperationDelete, true},
		"two relabels of a pod under update":  {[]quota.Removal{relabel("a", 7), updated, relabel("a", 9)}, 9, v1alpha1.OperationRelabel, true},
		"a relabel between two equal updates": {[]quota.Removal{updated, relabel("a", 7), updated}, 7, v1alpha1.OperationRelabel, true},
	} {
		t.Run(claim, func(t *testing.T) {
			p := protector(1, 9)
			quota.Decide(p, c.asked)
			got, bucket := onlyReservation(t, p)
			if got.Relabel != c.want || bucket.Operation != c.as || got.Update.IsEmpty() == c.update || c.update && !got.Update.Removal {
				t.Errorf("reservation %+v of %s, want version %d of %s and update %v", got, bucket.Operation, c.want, c.as, c.update)
			}
			if reserved := quota.BudgetOf(p).Reserved; reserved != 1 {
				t.Errorf("%d reserved, want 1", reserved)
			}
		})
	}
}

// Rule 6: merged reservations stay distinct if they end differently. Merged relabels keep no version earlier than that of the last
// one.
func TestCompactMergesRelabelsSeparately(t *testing.T) {
	p := withThreshold(protector(1, 9), 0)
	for _, r := range []quota.Removal{relabel("a", 7), removal("c0", "b"), relabel("c", 9), relabel("d", 8), removal("c0", "e")} {
		quota.Decide(p, []quota.Removal{r})
		compactAll(p, start)
	}
	h := &p.Status.Cells[0].AdmissionHistory
	versions := func() map[quota.UIDHash]int64 {
		all := map[quota.UIDHash]int64{}
		for r := range quota.Reservations(h) {
			all[r.Hash] = r.Relabel
		}
		return all
	}
	want := map[quota.UIDHash]int64{
		quota.HashUID("a"): 9, quota.HashUID("c"): 9, quota.HashUID("d"): 9, quota.HashUID("b"): 0, quota.HashUID("e"): 0,
	}
	if diff := cmp.Diff(want, versions()); diff != "" || len(h.Buckets) != 2 {
		t.Fatalf("%d buckets, want 2; reviewed versions (-want +got):\n%s", len(h.Buckets), diff)
	}
	quota.Decide(p, []quota.Removal{relabel("a", 10), removal("c0", "c")})
	want[quota.HashUID("a")], want[quota.HashUID("c")] = 10, 0
	if diff := cmp.Diff(want, versions()); diff != "" {
		t.Errorf("reviewed versions after a renewal (-want +got):\n%s", diff)
	}
	done := quota.Settle(h, func(r quota.Reservation) quota.Observation {
		if r.Relabel > 0 {
			return quota.Relabeled
		}
		return quota.Alive
	})
	left := slices.Collect(quota.Reservations(h))
	if done.Relabeled != 2 || !done.HasAny() || len(left) != 3 || quota.Open(h) != 3 {
		t.Errorf("Settle() = %+v with %d left, want 2 relabels settled and 3 removals left", done, len(left))
	}
}

func TestSettleKeepsTheUpdateOfAFailedRelabel(t *testing.T) {
	p := protector(1, 9)
	quota.Decide(p, []quota.Removal{update("a", 2, container("web", 1)), relabel("a", 7)})
	done := quota.Settle(&p.Status.Cells[0].AdmissionHistory, func(quota.Reservation) quota.Observation { return quota.RemovalExpired })
	got, bucket := onlyReservation(t, p)
	if done.HasAny() || got.Relabel != 0 || bucket.PodVersion != 0 || got.Update.IsEmpty() || got.Update.Removal {
		t.Errorf("Settle() = %+v, left %+v, want only the update left", done, got)
	}
}
