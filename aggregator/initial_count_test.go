package aggregator

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// aggregateNow counts and writes, and returns the number of available pods in the counts.
func (w *simulatedCell) aggregateNow(t *testing.T) int32 {
	t.Helper()
	if err := w.beginAggregation(w.newest()); err != nil {
		t.Fatal(err)
	}
	w.finishAggregation(len(w.pending) - 1)
	return quota.CellOf(w.stored, simulatedCellName).Aggregation.CountedReplicas
}

// remove removes a pod without a reservation.
func (w *simulatedCell) remove(uid types.UID) {
	pod := w.pods[uid]
	delete(w.pods, uid)
	w.recordEvent(pod, true)
}

// Removals from before a protector existed, or covered the pod, were never reserved. A count by a lagging stream must
// not include such pods.
func TestInitialCountIsNotOlderThanProtector(t *testing.T) {
	for claim, begin := range map[string]func(p *v1alpha1.PodProtector){
		"a recreated protector": func(p *v1alpha1.PodProtector) {
			p.UID, p.Status = "another", v1alpha1.PodProtectorStatus{}
		},
		"a selector that covers more": func(p *v1alpha1.PodProtector) {
			p.Generation++
			p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: nil}
		},
	} {
		t.Run(claim, func(t *testing.T) {
			w := newSimulatedCell(1, 4)
			for range 5 {
				w.create(true)
			}
			w.lead()
			if got := w.aggregateNow(t); got != 5 {
				t.Fatalf("%d available, want 5", got)
			}
			w.remove("uid-1")
			w.create(true)
			w.remove("uid-6") // created and removed, and the stream has shown neither
			changed := w.stored.DeepCopy()
			begin(changed)
			w.store(changed)
			if got := w.aggregateNow(t); got != 4 {
				t.Errorf("lagging stream: %d available, want 4", got)
			}
			if settled := quota.CellOf(w.stored, simulatedCellName).Aggregation.SettledVersion; settled == "" {
				t.Error("settledVersion is empty, want that of the live list")
			}
			l := w.newest()
			for l.delivered < len(w.events) {
				l.deliver(w.events, 1)
				if got := w.aggregateNow(t); got != 4 {
					t.Errorf("%d available after event %d, want 4", got, l.delivered)
				}
			}
			w.create(true)
			l.deliver(w.events, 1)
			if got := w.aggregateNow(t); got != 5 {
				t.Errorf("%d available when the stream has caught up, want 5", got)
			}
			if len(l.reconciler.pods.initial.counts.Of) != 0 {
				t.Error("live list kept after the stream has passed it, want none")
			}
		})
	}
}

// A restored cell has the pod of before it became ready. The stream still shows the state that the restore has undone, which may be removed without a
// reservation.
func TestInitialCountOmitsPodsThatARestoreReverted(t *testing.T) {
	w := newSimulatedCell(1, 4)
	for range 3 {
		w.create(true)
	}
	w.lead()
	w.create(true) // the stream has not shown it yet
	reverted := quota.HashUID("uid-1")
	w.newest().reconciler.pods.reads.ReadLive = func(_ context.Context, _, selector string) (snapshot.LiveRead, error) {
		live := w.readLive(selector)
		pod := live.Pods[reverted]
		pod.Version--
		live.Pods[reverted] = pod
		return live, nil
	}
	changed := w.stored.DeepCopy()
	changed.UID = "another"
	w.store(changed)
	if got := w.aggregateNow(t); got != 2 {
		t.Errorf("%d available, want 2: one pod is not as the stream shows it, and another one is new", got)
	}
}

// A selector that cannot match any pod needs no live list.
func TestSelectorWithoutPodsNeedsNoList(t *testing.T) {
	w := newSimulatedCell(1, 4)
	w.create(true)
	w.lead()
	w.newest().reconciler.pods.reads.ReadLive = func(context.Context, string, string) (snapshot.LiveRead, error) {
		t.Error("read a live list, want none")
		return snapshot.LiveRead{}, nil
	}
	w.stored.Spec.Selector.MatchExpressions = []v1alpha1.PodSelectorRequirement{{Key: "app", Operator: "DoesNotExist"}}
	if got := w.aggregateNow(t); got != 0 {
		t.Errorf("%d available, want none", got)
	}
}

// After its first list a new leader needs no other one for the protectors that it knew before.
func TestNewLeaderListsOnceForKnownProtectors(t *testing.T) {
	w := newSimulatedCell(1, 4)
	w.create(true)
	w.lead()
	l := w.newest()
	l.reconciler.pods.initial.counts.Set(w.key(), &initialCount{uid: w.stored.UID, spec: quota.CountedSpec(&w.stored.Spec)})
	w.remove("uid-1") // another list would not contain it
	if got := w.aggregateNow(t); got != 1 {
		t.Errorf("%d available, want the one of the leader's own list", got)
	}
	if w.aggregateNow(t); len(l.reconciler.pods.initial.counts.Of) != 0 {
		t.Error("initial count kept after the protector was counted, want none")
	}
}

// The reservations of a protector that vanished may be unknown, and removals that were admitted before may take effect
// until the admission deadline. The pods must not be counted earlier.
func TestRestoredProtectorIsCountedAfterDeadline(t *testing.T) {
	for claim, begin := range map[string]func(p *v1alpha1.PodProtector){
		"with the cells that it had": func(p *v1alpha1.PodProtector) { p.Status.Cells = quota.RestoredCells(&p.Status) },
		"of which nothing is known": func(p *v1alpha1.PodProtector) {
			p.Annotations, p.Status = map[string]string{v1alpha1.AnnotationRestored: ""}, v1alpha1.PodProtectorStatus{Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionRestored, Status: metav1.ConditionTrue},
			}}
		},
	} {
		for _, newLeader := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, by a new leader %v", claim, newLeader), func(t *testing.T) {
				w := newSimulatedCell(1, 4)
				for range 5 {
					w.create(true)
				}
				w.lead()
				if got := w.aggregateNow(t); got != 5 {
					t.Fatalf("%d available, want 5", got)
				}
				changed := w.stored.DeepCopy()
				changed.UID = "another"
				begin(changed)
				w.store(changed)
				if newLeader { // it knew the protector before its pods were listed
					w.lead()
					w.newest().reconciler.pods.initial.counts.Set(w.key(), &initialCount{uid: w.stored.UID, spec: quota.CountedSpec(&w.stored.Spec)})
				}
				counted := func() bool {
					if err := w.beginAggregation(w.newest()); err != nil {
						t.Fatal(err)
					}
					w.finishAggregation(len(w.pending) - 1)
					cell := quota.CellOf(w.stored, simulatedCellName)
					return cell != nil && !cell.Aggregation.Void
				}
				if counted() {
					t.Fatal("counted at once, want a wait for the admission deadline")
				}
				w.clock = w.clock.Add(simulatedInFlight - time.Millisecond)
				if counted() {
					t.Fatal("counted before the admission deadline, want a wait")
				}
				w.remove("uid-1") // by a removal that was admitted before; the stream lags
				w.clock = w.clock.Add(time.Millisecond)
				if !counted() {
					t.Fatal("not counted after the admission deadline")
				}
				if got := quota.CellOf(w.stored, simulatedCellName).Aggregation.CountedReplicas; got != 4 {
					t.Errorf("%d available, want 4", got)
				}
			})
		}
	}
}

func TestUnfinishedProtectorIsNotCounted(t *testing.T) {
	w := newSimulatedCell(1, 4)
	w.create(true)
	w.lead()
	w.stored.Annotations = map[string]string{v1alpha1.AnnotationRestored: "uid"}
	w.clock = w.clock.Add(simulatedInFlight)
	for range 2 {
		if err := w.beginAggregation(w.newest()); err != nil {
			t.Fatal(err)
		}
		w.finishAggregation(len(w.pending) - 1)
		w.clock = w.clock.Add(simulatedInFlight)
	}
	if len(w.stored.Status.Cells) > 0 {
		t.Errorf("cells %+v of an unfinished protector, want none", w.stored.Status.Cells)
	}
}
