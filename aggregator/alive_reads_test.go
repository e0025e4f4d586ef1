package aggregator

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// youngPods has an old pod and young ones. The young ones are removed without a reservation while the stream still shows
// them.
type youngPods struct {
	*simulatedCell
	leader *leader
	reads  int
	broken error
}

const agedMinReady = 10 * time.Second

func newYoungPods(t *testing.T) *youngPods {
	t.Helper()
	w := &youngPods{simulatedCell: newSimulatedCell(1, 0)}
	w.stored.Spec.MinReadySeconds = int32(agedMinReady.Seconds())
	w.ready("old", time.Hour)
	w.lead()
	w.leader = w.newest()
	read := w.leader.reconciler.pods.reads.ReadLive
	w.leader.reconciler.pods.reads.ReadLive = func(ctx context.Context, namespace, selector string) (snapshot.LiveRead, error) {
		w.reads++
		if w.broken != nil {
			return snapshot.LiveRead{}, w.broken
		}
		return read(ctx, namespace, selector)
	}
	for _, name := range []string{"young-1", "young-2"} {
		w.ready(name, 0)
	}
	w.leader.deliver(w.events, len(w.events))
	w.wantCounted(t, 1, "while the new pods are young")
	return w
}

func (w *youngPods) ready(name string, ago time.Duration) {
	p := samplePod(name, name, "1", map[string]string{"app": "web"})
	p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.clock.Add(-ago))
	w.pods[p.UID] = p
	w.recordEvent(p, false)
}

// remove removes a pod without the stream showing it.
func (w *youngPods) remove(uid types.UID) {
	p := w.pods[uid]
	delete(w.pods, uid)
	w.recordEvent(p, true)
}

func (w *youngPods) wantCounted(t *testing.T, want int32, when string) outcome {
	t.Helper()
	p := w.stored.DeepCopy()
	done, err := w.leader.reconciler.aggregate(t.Context(), w.key(), p)
	if err != nil {
		t.Fatal(err)
	}
	w.store(p)
	if got := quota.CellOf(p, simulatedCellName).Aggregation.CountedReplicas; got != want {
		t.Fatalf("aggregate() counted %d pods %s, want %d", got, when, want)
	}
	return done
}

// Rule 4: the removal of a pod that is too young is not reserved, so the pod must not count later because the stream lags.
func TestPodRemovedBeforeMinReadySecondsIsNeverCounted(t *testing.T) {
	w := newYoungPods(t)
	w.clock = w.clock.Add(agedMinReady / 2)
	live := w.readLive("")
	w.leader.snapshot.RecordAlive(&live, w.leader.snapshot.SinceCreation())
	w.remove("young-1")
	w.clock = w.clock.Add(agedMinReady / 2)
	if done := w.wantCounted(t, 2, "when the stream lags"); w.reads != 1 || done.wait != snapshot.AliveReadMinInterval {
		t.Errorf("aggregate() read pods %d times and looks again after %s, want 1 and %s", w.reads, done.wait, snapshot.AliveReadMinInterval)
	}
	w.leader.deliver(w.events, len(w.events))
	if done := w.wantCounted(t, 2, "when the stream has the removal"); w.reads != 1 || done.wait != 0 {
		t.Errorf("aggregate() read pods %d times and looks again after %s, want 1 and never", w.reads, done.wait)
	}
}

func TestAvailablePodCountsAfterFailedLiveRead(t *testing.T) {
	w := newYoungPods(t)
	w.clock, w.broken = w.clock.Add(agedMinReady), errors.New("unreachable")
	if done := w.wantCounted(t, 1, "without a live read"); !done.retry {
		t.Error("aggregate() does not look again after a live read failed")
	}
	w.broken = nil
	if done := w.wantCounted(t, 1, "before the next live read"); w.reads != 1 || done.wait != snapshot.AliveReadMinInterval {
		t.Errorf("aggregate() read pods %d times and looks again after %s, want 1 and %s", w.reads, done.wait, snapshot.AliveReadMinInterval)
	}
	w.clock = w.clock.Add(snapshot.AliveReadMinInterval)
	w.wantCounted(t, 3, "after the next live read")
}

// A restored cell has the pod of before it became ready (simulation, scope seed 1803043).
func TestRestoredPodIsNotSeenAliveInItsLaterState(t *testing.T) {
	w := newYoungPods(t)
	w.clock = w.clock.Add(agedMinReady)
	live := w.readLive("")
	for hash, p := range live.Pods {
		p.Version--
		live.Pods[hash] = p
	}
	w.leader.snapshot.RecordAlive(&live, w.leader.snapshot.SinceCreation())
	w.broken = errors.New("unreachable")
	w.wantCounted(t, 1, "after a live read of earlier versions")
}

// A pod that was seen while the clock was ahead has not been seen since it became available.
func TestPodMustBeSeenAgainAfterClockSetBack(t *testing.T) {
	w := newYoungPods(t)
	set := time.Duration(0)
	w.leader.reconciler.enqueuer.clock.wall = func() time.Time { return w.clock.Add(set) }
	set = -time.Hour
	w.wantCounted(t, 0, "after the clock was set back")
	w.ready("new", time.Hour) // by the clock as it is set now
	w.leader.deliver(w.events, len(w.events))
	live := w.readLive("")
	w.leader.snapshot.RecordAlive(&live, w.leader.snapshot.SinceCreation())
	w.remove("new")
	w.clock = w.clock.Add(agedMinReady)
	w.wantCounted(t, 1, "of an old one and one that was removed while it was too young")
	w.clock = w.clock.Add(time.Hour)
	w.wantCounted(t, 3, "that are alive")
}

// Pods that need not have been ready for any time count without a live read.
func TestPodsWithoutMinReadySecondsNeedNoLiveRead(t *testing.T) {
	w := newYoungPods(t)
	w.stored.Spec.MinReadySeconds = 0
	w.clock = w.clock.Add(agedMinReady)
	w.wantCounted(t, 3, "in the transition to the new spec")
	w.clock = w.clock.Add(time.Hour)
	w.wantCounted(t, 3, "after it")
	before := w.reads
	w.ready("another", 0)
	w.leader.deliver(w.events, len(w.events))
	w.wantCounted(t, 4, "as soon as it is ready")
	if w.reads != before {
		t.Errorf("aggregate() read pods %d times, want %d", w.reads, before)
	}
}

// A read that took long because the process was paused does not predict the cost of the next one.
func TestSlowLiveReadDelaysNextReadAtMostTenSeconds(t *testing.T) {
	w := newYoungPods(t)
	read := w.leader.reconciler.pods.reads.ReadLive
	w.leader.reconciler.pods.reads.ReadLive = func(ctx context.Context, namespace, selector string) (snapshot.LiveRead, error) {
		live, err := read(ctx, namespace, selector)
		w.clock = w.clock.Add(time.Minute)
		return live, err
	}
	w.clock = w.clock.Add(agedMinReady)
	w.ready("another", agedMinReady-time.Second)
	w.leader.deliver(w.events, len(w.events))
	if done := w.wantCounted(t, 3, "after a read of a minute"); done.wait != snapshot.AliveReadMinInterval && done.wait > snapshot.AliveReadMaxInterval {
		t.Errorf("aggregate() reads pods again after %s, want at most %s", done.wait, snapshot.AliveReadMaxInterval)
	}
	w.clock = w.clock.Add(snapshot.AliveReadMaxInterval)
	w.wantCounted(t, 4, "after the next read")
}
