package reserve

import (
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func TestOnlyReservationsOfOtherReplicasAreContention(t *testing.T) {
	rejected := memoryProtector("web", 1, 100)
	reserve(t, rejected, "web-0", "web-1", "web-2")
	for claim, c := range map[string]struct {
		change func(newest *v1alpha1.PodProtector)
		want   bool
	}{
		"the aggregator counts": {change: func(newest *v1alpha1.PodProtector) { newest.Status.Cells[0].Aggregation.CountedReplicas = 99 }},
		"the aggregator settles": {change: func(newest *v1alpha1.PodProtector) {
			quota.Settle(&newest.Status.Cells[0].AdmissionHistory, func(quota.Reservation) quota.Observation { return quota.Absent })
		}},
		"the aggregator of another cell begins": {change: func(newest *v1alpha1.PodProtector) {
			newest.Status.Cells = append(newest.Status.Cells, v1alpha1.PodProtectorCell{CellID: "c1"})
		}},
		"another replica merges reservations": {change: func(newest *v1alpha1.PodProtector) {
			newest.Spec.AdmissionHistory.CompactThreshold = new(int32)
			quota.Compact(newest, memoryCell, time.Now())
		}},
		"another replica reserves": {change: func(newest *v1alpha1.PodProtector) { reserve(t, newest, "web-3") }, want: true},
		"another replica reserves and merges": {change: func(newest *v1alpha1.PodProtector) {
			reserve(t, newest, "web-3")
			newest.Spec.AdmissionHistory.CompactThreshold = new(int32)
			quota.Compact(newest, memoryCell, time.Now())
		}, want: true},
		"another replica reserves in a cell that is new": {change: func(newest *v1alpha1.PodProtector) {
			newest.Status.Cells = append(newest.Status.Cells, *newest.Status.Cells[0].DeepCopy())
			newest.Status.Cells[1].CellID = "c1"
		}, want: true},
	} {
		t.Run(claim, func(t *testing.T) {
			newest := rejected.DeepCopy()
			c.change(newest)
			if got := hasOtherReservations(newest, rejected); got != c.want {
				t.Errorf("hasOtherReservations() = %t, want %t; history %+v", got, c.want, newest.Status.Cells)
			}
		})
	}
}

// reserve makes reservations in p.
func reserve(t *testing.T, p *v1alpha1.PodProtector, pods ...string) {
	t.Helper()
	for _, pod := range pods {
		removal := quota.Removal{
			Cell: memoryCell, PodUID: memoryPod(pod).UID, PodName: pod, Operation: v1alpha1.OperationDelete, At: time.Now(), Token: pod,
		}
		if verdict := quota.Decide(p, []quota.Removal{removal})[0]; verdict.Outcome != quota.Reserved {
			t.Fatalf("%s: %s, want %s", pod, verdict.Outcome, quota.Reserved)
		}
	}
}
