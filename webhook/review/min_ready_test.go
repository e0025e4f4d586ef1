package review

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// staleCache is a cache that has not seen the last changes.
type staleCache struct {
	client.Reader
	last *v1alpha1.PodProtector
}

func (b staleCache) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	p, ok := into.(*v1alpha1.PodProtector)
	if !ok {
		return fmt.Errorf("%T is not a PodProtector", into)
	}
	b.last.DeepCopyInto(p)
	p.ResourceVersion = "1" // older than everything that the client in memory has stored
	return nil
}

// countedAt returns a protector that requires a minute of readiness, with the given number of pods that were available
// at a time.
func countedAt(available int32, at time.Time) *v1alpha1.PodProtector {
	p := held(memoryProtector("web", 2, available))
	p.Spec.MinReadySeconds = 60
	a := &p.Status.Cells[0].Aggregation
	a.CountedSpec, a.LastEventTime = quota.CountedSpec(&p.Spec), metav1.NewMicroTime(at)
	return p
}

// The aggregator counted a pod after it had been ready for a minute. The clock of this replica is 90 s behind, and its
// watch has not shown that count. The webhook must charge the removal of the pod anyway.
func TestStaleReplicaChargesCountedPod(t *testing.T) {
	ready := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	counted := ready.Add(time.Minute)
	for claim, c := range map[string]struct {
		now    time.Time
		stored *v1alpha1.PodProtector
		want   removal.VerdictReason
	}{
		"a counted pod consumes budget":                           {counted.Add(-90 * time.Second), countedAt(2, counted), "NoBudget"},
		"and may go while there is budget":                        {counted.Add(-90 * time.Second), countedAt(3, counted), "Reserved"},
		"one that was not counted is free":                        {counted.Add(-90 * time.Second), countedAt(2, counted.Add(-time.Second)), "NotAvailable"},
		"one that is old enough by the clock of the replica does": {counted, countedAt(2, counted.Add(-time.Hour)), "NoBudget"},
	} {
		t.Run(claim, func(t *testing.T) {
			d := newMemoryFixture(t, c.stored)
			d.now = func() time.Time { return c.now }
			d.access.Cache = staleCache{d.client, countedAt(c.stored.Status.Cells[0].Aggregation.CountedReplicas, ready.Add(-time.Hour))}
			pod := memoryPod("web-0")
			pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(ready)
			if answer := d.remove(t.Context(), pod); answer.Verdict != c.want {
				t.Errorf("verdict %s, want %s: %+v", answer.Verdict, c.want, answer.Status)
			}
		})
	}
}

// Spec and reservations share a version: the reservation of a replica whose watch is frozen conflicts with a raised floor.
func TestRaisedFloorBindsAReplicaWhoseWatchIsFrozen(t *testing.T) {
	raised, before := countedAt(3, time.Now()), countedAt(3, time.Now())
	raised.Spec.MinAvailable = v1alpha1.Pods(3)
	for claim, c := range map[string]struct {
		stored *v1alpha1.PodProtector
		want   removal.VerdictReason
	}{"a raised floor": {raised, "NoBudget"}, "the same floor": {before, "Reserved"}} {
		d := newMemoryFixture(t, c.stored)
		d.access.Cache = staleCache{d.client, before}
		if answer := d.remove(t.Context(), memoryPod("web-0")); answer.Verdict != c.want {
			t.Errorf("%s: verdict %s, want %s: %+v", claim, answer.Verdict, c.want, answer.Status)
		}
	}
}

// Only the core can answer whether a young pod is counted.
func TestRecentlyReadyPodIsDeniedWhileCoreIsUnreachable(t *testing.T) {
	ready := time.Now().Add(-time.Second)
	for _, floor := range []int32{0, 1} {
		p := countedAt(2, ready.Add(-time.Hour))
		p.Spec.MinAvailable = v1alpha1.Pods(floor)
		d := newMemoryFixture(t, p)
		d.access.Live = unresponsiveReader{d.client}
		pod := memoryPod("web-0")
		pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(ready)
		want := removal.VerdictUnknown
		if floor == 0 {
			want = removal.VerdictNotAvailable // a floor of 0 refuses nothing
		}
		if answer := d.remove(t.Context(), pod); answer.Verdict != want {
			t.Errorf("verdict %s with floor %d, want %s: %+v", answer.Verdict, floor, want, answer.Status)
		}
	}
}

// unresponsiveReader is an API server that does not answer.
type unresponsiveReader struct{ client.Reader }

func (unresponsiveReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return context.DeadlineExceeded
}
