package quota_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// protector returns a protector with a floor and, for each number given, a cell c0, c1, ... with that many available pods.
func protector(floor int32, available ...int32) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{}
	p.Name, p.Namespace, p.Generation = "web", "default", 1
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	p.Spec.MinAvailable = v1alpha1.Pods(floor)
	for i, n := range available {
		p.Status.Cells = append(p.Status.Cells, v1alpha1.PodProtectorCell{
			CellID: fmt.Sprintf("c%d", i),
			Aggregation: v1alpha1.Aggregation{
				TotalReplicas: n, AvailableReplicas: n, CountedReplicas: n, ReadyReplicas: n, RunningReplicas: n, ScheduledReplicas: n,
				CountedSpec: quota.CountedSpec(&p.Spec),
			},
		})
	}
	return p
}

func withThreshold(p *v1alpha1.PodProtector, n int32) *v1alpha1.PodProtector {
	p.Spec.AdmissionHistory.CompactThreshold = &n
	return p
}

func withMaxConcurrentLag(p *v1alpha1.PodProtector, n int32) *v1alpha1.PodProtector {
	p.Spec.AdmissionHistory.MaxConcurrentLag = n
	return p
}

func removal(cell, uid string) quota.Removal {
	return quota.Removal{
		Cell: cell, PodUID: types.UID(uid), PodName: "pod-" + uid, Operation: v1alpha1.OperationDelete, At: start,
		Token: strconv.FormatUint(rand.Uint64(), 36),
	}
}

func outcomes(verdicts []quota.Verdict) []quota.Outcome {
	var all []quota.Outcome
	for _, v := range verdicts {
		all = append(all, v.Outcome)
	}
	return all
}

// withReservations returns p with reservations for those UIDs in c0.
func withReservations(p *v1alpha1.PodProtector, uids ...string) *v1alpha1.PodProtector {
	for _, uid := range uids {
		p.Status.Cells[0].AdmissionHistory.Buckets = append(p.Status.Cells[0].AdmissionHistory.Buckets, v1alpha1.Bucket{
			StartTime: metav1.NewMicroTime(start), Counter: 1, PodUID: types.UID(uid), PodName: "pod-" + uid,
		})
	}
	return p
}

func TestDecide(t *testing.T) {
	otherSpec := protector(1, 5)
	otherSpec.Spec.Selector.MatchLabels["app"] = "other"
	for claim, test := range map[string]struct {
		protector *v1alpha1.PodProtector
		removals  []quota.Removal
		want      []quota.Outcome
	}{
		"denies the third removal when two are allowed": {
			protector(5, 3, 4),
			[]quota.Removal{removal("c0", "a"), removal("c1", "b"), removal("c0", "c")},
			[]quota.Outcome{quota.Reserved, quota.Reserved, quota.DeniedNoBudget},
		},
		"charges a repeated removal once": {
			protector(5, 6),
			[]quota.Removal{removal("c0", "a"), removal("c0", "a"), removal("c0", "b")},
			[]quota.Outcome{quota.Reserved, quota.Renewed, quota.DeniedNoBudget},
		},
		"one UID in two cells is two pods": {
			protector(5, 4, 3),
			[]quota.Removal{removal("c0", "a"), removal("c1", "a"), removal("c1", "a"), removal("c1", "b")},
			[]quota.Outcome{quota.Reserved, quota.Reserved, quota.Renewed, quota.DeniedNoBudget},
		},
		"denies a removal below the floor": {
			protector(9, 3, 4), []quota.Removal{removal("c0", "a")}, []quota.Outcome{quota.DeniedNoBudget},
		},
		"denies a removal in a cell that was never aggregated": {
			protector(1, 9), []quota.Removal{removal("elsewhere", "a")}, []quota.Outcome{quota.DeniedNeverAggregated},
		},
		"denies a removal of a protector that was never aggregated": {
			protector(1), []quota.Removal{removal("c0", "a")}, []quota.Outcome{quota.DeniedNeverAggregated},
		},
		"waives the reservation for a floor of zero that was never aggregated": {
			protector(0), []quota.Removal{removal("c0", "a")}, []quota.Outcome{quota.Waived},
		},
		"a floor of zero denies no removal and still records reservations": {
			protector(0, 1),
			[]quota.Removal{removal("c0", "a"), removal("c0", "b"), removal("c0", "a")},
			[]quota.Outcome{quota.Reserved, quota.Reserved, quota.Renewed},
		},
		"denies a removal without a UID": {
			protector(0, 9), []quota.Removal{removal("c0", "")}, []quota.Outcome{quota.DeniedNameless},
		},
		"ignores counts of another spec": {
			otherSpec, []quota.Removal{removal("c0", "a")}, []quota.Outcome{quota.DeniedNoBudget},
		},
		"admits a repeated removal while the budget is zero": {
			withReservations(protector(5, 6), "a"), []quota.Removal{removal("c0", "a")}, []quota.Outcome{quota.Renewed},
		},
		"denies a repeated removal after pods died or the floor was raised": {
			withReservations(protector(5, 5), "a"),
			[]quota.Removal{removal("c0", "a"), removal("c0", "b")},
			[]quota.Outcome{quota.DeniedNoBudget, quota.DeniedNoBudget},
		},
		"denies new removals at maxConcurrentLag and admits repeated ones": {
			withMaxConcurrentLag(protector(1, 9), 2),
			[]quota.Removal{removal("c0", "a"), removal("c0", "b"), removal("c0", "c"), removal("c0", "b")},
			[]quota.Outcome{quota.Reserved, quota.Reserved, quota.DeniedFull, quota.Renewed},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			got := outcomes(quota.Decide(test.protector, test.removals))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecideDeniesAboveALoweredLimit(t *testing.T) {
	p := protector(1, 9)
	quota.Decide(p, []quota.Removal{removal("c0", "a"), removal("c0", "b"), removal("c0", "c")})
	withMaxConcurrentLag(p, 1)
	if got := quota.Decide(p, []quota.Removal{removal("c0", "d")})[0].Outcome; got != quota.DeniedFull {
		t.Errorf("Decide() with 3 open reservations and maxConcurrentLag 1 = %v, want %v", got, quota.DeniedFull)
	}
}

func TestIsSatisfied(t *testing.T) {
	unknown, void := protector(0, 5), protector(1, 5)
	half := intstr.FromString("50%")
	unknown.Spec.MinAvailable = &half
	void.Status.Cells[0].Aggregation.Void = true
	for claim, test := range map[string]struct {
		protector *v1alpha1.PodProtector
		want      bool
	}{
		"as many pods as the floor, in all cells": {protector(5, 3, 2), true},
		"fewer": {protector(6, 3, 2), false},
		"fewer without those that are being removed": {withReservations(protector(5, 5), "a"), false},
		"the floor is unknown":                       {unknown, false},
		"counts are void":                            {void, false},
	} {
		if got := quota.IsSatisfied(test.protector); got != test.want {
			t.Errorf("%s: IsSatisfied() = %v, want %v", claim, got, test.want)
		}
	}
}

func TestVerdictReportsTheBudgetBeforeTheRemoval(t *testing.T) {
	verdicts := quota.Decide(protector(5, 3, 4), []quota.Removal{removal("c0", "a"), removal("c0", "b"), removal("c1", "c")})
	want := quota.Budget{Floor: 5, Available: 7, Reserved: 2}
	if got := verdicts[2].Budget; got != want || got.Left() != 0 {
		t.Errorf("budget %+v (left %d), want %+v (left 0)", got, got.Left(), want)
	}
}

// stampOf returns the stamp of a removal's reservation.
func stampOf(p *v1alpha1.PodProtector, r quota.Removal) time.Time {
	quota.Decide(p, []quota.Removal{r})
	buckets := p.Status.Cells[0].AdmissionHistory.Buckets
	return buckets[len(buckets)-1].StartTime.Time
}

func TestRenewalIncreasesTheStamp(t *testing.T) {
	for _, compact := range []int32{0, 100} {
		p := withThreshold(protector(1, 9), compact)
		first := stampOf(p, removal("c0", "a"))
		compactAll(p, start)
		late := removal("c0", "a")
		late.At = start.Add(-time.Hour) // a clock that is behind
		second := stampOf(p, late)
		if !second.After(first) {
			t.Errorf("compactThreshold %d: renewed stamp %v is not after %v", compact, second, first)
		}
	}
}

func TestCompactKeepsRevocableReservations(t *testing.T) {
	p := withThreshold(protector(1, 9), 0)
	revocable := removal("c0", "a")
	revocable.RevocableUntil = start.Add(time.Second)
	later := removal("c0", "b")
	later.At = start.Add(time.Minute)
	verdicts := quota.Decide(p, []quota.Removal{revocable, later})
	compactAll(p, start)
	if got := len(p.Status.Cells[0].AdmissionHistory.Buckets); got != 2 {
		t.Fatalf("%d buckets, want the merged one and the revocable one", got)
	}
	again := p.DeepCopy()
	if !quota.ReleaseClaim(again, "c0", "a", verdicts[0].Claim) {
		t.Error("ReleaseClaim() of a revocable reservation = false, want true")
	}
	compactAll(p, start.Add(time.Second))
	if got := len(p.Status.Cells[0].AdmissionHistory.Buckets); got != 1 {
		t.Errorf("%d buckets after revocableUntil, want 1", got)
	}
	if got := quota.BudgetOf(p).Reserved; got != 2 {
		t.Errorf("%d reservations, want 2", got)
	}
}

func TestCompactMergesRevocableReservationsAboveTheLimit(t *testing.T) {
	p := withThreshold(protector(1, 5000), 0)
	for i := range 2001 {
		r := removal("c0", fmt.Sprint(i))
		r.RevocableUntil = start.Add(time.Hour)
		quota.Decide(p, []quota.Removal{r})
	}
	compactAll(p, start)
	if got := len(p.Status.Cells[0].AdmissionHistory.Buckets); got != 1 {
		t.Errorf("%d buckets, want one", got)
	}
	if got := quota.BudgetOf(p).Reserved; got != 2001 {
		t.Errorf("%d reservations, want 2001", got)
	}
}
