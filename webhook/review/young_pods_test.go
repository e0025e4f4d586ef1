package review

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/webhook/reserve"
)

// A break-glass removal that was admitted while the core was unreachable is charged when it is back, also if the replica could not read whether the pod
// is old enough to count.
func TestBreakGlassOfRecentlyReadyPodIsChargedLater(t *testing.T) {
	ready := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	counted := ready.Add(time.Minute)
	d := newMemoryFixture(t, countedAt(3, counted)) // floor 2, so that one removal is left
	d.now = func() time.Time { return counted.Add(-90 * time.Second) }
	d.access.Cache = staleCache{d.client, countedAt(3, ready.Add(-time.Hour))}
	d.access.Live = unresponsiveReader{d.client}
	forced := memoryPod("web-0")
	forced.Annotations = map[string]string{v1alpha1.AnnotationForceDelete: "true"}
	forced.Status.Conditions[0].LastTransitionTime = metav1.NewTime(ready)
	if answer := d.remove(t.Context(), forced); !answer.Allowed {
		t.Fatalf("the break-glass removal is denied: %+v", answer)
	}
	d.access.Live, d.access.Cache = d.client, d.client // the core is reachable again
	other := memoryPod("web-1")
	other.Status.Conditions[0].LastTransitionTime = metav1.NewTime(ready.Add(-time.Hour))
	if answer := d.remove(t.Context(), other); answer.Allowed {
		t.Errorf("another removal is admitted (%s) with the budget of the break-glass removal, of which %d charges are pending", answer.Verdict, d.core.Pending.Count())
	}
}

// Other cells rely on the pods that a share of 0 has counted as soon as it is raised. So a removal of such a pod is charged to it as to any other share, also
// by a replica whose clock and watch are late (rule S1).
func TestStaleReplicaChargesCountedPodToAShareOfZero(t *testing.T) {
	ready := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	counted := ready.Add(time.Minute)
	for _, floor := range []int32{0, 1} {
		share := func(at time.Time) *v1alpha1.PodProtector {
			p := countedAt(5, at)
			p.Name, p.Finalizers, p.Spec.MinAvailable = "web.share", nil, v1alpha1.Pods(floor)
			p.Spec.ShareOf = &v1alpha1.ShareOf{Name: "web", UID: "1", Cell: memoryCell}
			return p
		}
		d := newMemoryFixture(t, share(counted))
		d.now = func() time.Time { return counted.Add(-90 * time.Second) }
		d.access.Cache = staleCache{d.client, share(ready.Add(-time.Hour))}
		pod := memoryPod("web-0")
		pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(ready)
		if answer := d.remove(t.Context(), pod); answer.Verdict != "Reserved" {
			t.Errorf("the removal of a counted pod: verdict %s by a share of %d, want Reserved: %+v", answer.Verdict, floor, answer.Status)
		}
	}
}

// Pending charges are charged before all else, also if the clock of the replica was set back since they were made.
func TestPendingChargesComeFirstWhateverTheClockShows(t *testing.T) {
	for claim, since := range map[string]time.Duration{"the clock continues": time.Second, "the clock was set back": -time.Minute} {
		t.Run(claim, func(t *testing.T) {
			p := memoryProtector("web", 5, 6)
			d := newMemoryFixture(t, p)
			now := time.Now()
			forced := quota.Removal{Cell: memoryCell, PodUID: "forced", PodName: "forced", Operation: v1alpha1.OperationDelete, At: now, Token: "t", Force: true}
			d.core.Pending.Add(client.ObjectKeyFromObject(p), reserve.NewPendingCharge(forced, p))
			d.now = func() time.Time { return now.Add(since) }
			if answer := d.remove(t.Context(), memoryPod("web-0")); answer.Allowed {
				t.Errorf("a removal is admitted, although a break-glass removal has used the budget: %+v, stored %+v",
					answer.Verdict, d.stored(t, "web").Status.Cells[0].AdmissionHistory.Buckets)
			}
		})
	}
}
