package aggregator

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/aggregator/modes"
	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func TestLatestTime(t *testing.T) {
	at := func(second int) metav1.Time { return metav1.NewTime(time.Unix(int64(second), 0)) }
	deleted, grace := at(100), int64(30)
	for claim, c := range map[string]struct {
		pod  corev1.Pod
		want int64
	}{
		"of a new pod": {corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(5)}}, 5},
		"of a pod whose deletion has begun, which has the time of its end": {corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			CreationTimestamp: at(5), DeletionTimestamp: &deleted, DeletionGracePeriodSeconds: &grace,
		}}, 70},
		"of its conditions": {corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(5)},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
				{LastTransitionTime: at(8)}, {LastTransitionTime: at(7), LastProbeTime: at(9)},
			}},
		}, 9},
	} {
		if got := modes.LatestTime(&c.pod).Unix(); got != c.want {
			t.Errorf("the latest time %s is %d, want %d", claim, got, c.want)
		}
	}
}

func TestReservationsEndByEventTime(t *testing.T) {
	until := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	reservation := func(age time.Duration) quota.Reservation { return quota.Reservation{Hash: 1, Stamp: until.Add(-age)} }
	update := reservation(time.Hour)
	update.Update.Generation = 2
	for claim, c := range map[string]struct {
		until       time.Time
		reservation quota.Reservation
		snapshot    quota.Observation
		want        quota.Observation
	}{
		"an older reservation":                           {until, reservation(time.Second), quota.Alive, quota.Superseded},
		"one of the very time":                           {until, reservation(0), quota.Alive, quota.Superseded},
		"not a later one":                                {until, reservation(-time.Microsecond), quota.Alive, quota.Alive},
		"an older one, of a pod that was not seen yet":   {until, reservation(time.Second), quota.Unobserved, quota.Superseded},
		"a later one, whose pod is gone":                 {until, reservation(-time.Second), quota.Absent, quota.Absent},
		"not that of an update":                          {until, update, quota.Alive, quota.Alive},
		"nothing, where the cell is exact":               {time.Time{}, reservation(time.Hour), quota.Alive, quota.Alive},
		"nothing, where the cell is exact and pods late": {time.Time{}, reservation(time.Hour), quota.Unobserved, quota.Unobserved},
	} {
		o := observation{Count: snapshot.Count{Cutoff: modes.Cutoff{At: c.until}, PodStates: map[quota.UIDHash]quota.Observation{1: c.snapshot}}}
		if got := o.Cutoff.Settle(c.reservation, o.stateOf(c.reservation)); got != c.want {
			t.Errorf("a later event ends %s: %v, want %v", claim, got, c.want)
		}
	}
}
