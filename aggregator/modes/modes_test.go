package modes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestEventSettlementNotifiesWaiterOnce(t *testing.T) {
	var notified []string
	now := time.Unix(1000, 0)
	s := New(func(key types.NamespacedName, _ time.Duration) { notified = append(notified, key.Name) }, func() time.Time { return now })
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Unix(900, 0))}}
	hear := func(mode v1alpha1.Settlement, until int64, want int) {
		t.Helper()
		s.SetMode(mode)
		s.Record(pod)
		got := s.Cutoff().At
		if want != len(notified) || until == 0 != got.IsZero() || until > 0 && got.Unix() != until {
			t.Errorf("in mode %q: until %v, want %d; notified %v, want %d", mode, got, until, notified, want)
		}
	}
	entry := &v1alpha1.PodProtectorCell{AdmissionHistory: v1alpha1.AdmissionHistory{Buckets: []v1alpha1.Bucket{{Counter: 1}}}}
	for mode, want := range map[v1alpha1.Settlement]bool{v1alpha1.SettlementExact: false, v1alpha1.SettlementClock: true, v1alpha1.SettlementStatus: true} {
		s.SetMode(mode)
		if got := s.Await(types.NamespacedName{Name: "web"}, entry, 0); got != want || s.needsEvent() != want {
			t.Errorf("in mode %q: await() = %t, needsEvent() = %t, want %t", mode, got, s.needsEvent(), want)
		}
	}
	hear("", 0, 0)
	hear(v1alpha1.SettlementExact, 0, 0)
	hear(v1alpha1.SettlementClock, 1000, 1)
	hear(v1alpha1.SettlementStatus, 900, 1)
	if s.needsEvent() {
		t.Error("needsEvent() = true after an event, want false")
	}
}
