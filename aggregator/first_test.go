package aggregator

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// aggregateNow counts and writes, and returns the number of available pods in the counts.
func (w *world) aggregateNow(t *testing.T) int32 {
	t.Helper()
	if err := w.begin(w.newest()); err != nil {
		t.Fatal(err)
	}
	w.finish(len(w.pending) - 1)
	return quota.CellOf(w.stored, worldCell).Aggregation.CountedReplicas
}

// remove removes a pod without a reservation.
func (w *world) remove(uid types.UID) {
	pod := w.pods[uid]
	delete(w.pods, uid)
	w.happen(pod, true)
}

// Removals from before a protector existed, or covered the pod, were never reserved. A count by a lagging stream must
// not include such pods.
func TestAFirstCountIsNoOlderThanItsProtector(t *testing.T) {
	for claim, begin := range map[string]func(p *v1alpha1.PodProtector){
		"a protector that is made anew": func(p *v1alpha1.PodProtector) {
			p.UID, p.Status = "another", v1alpha1.PodProtectorStatus{}
		},
		"a selector that covers more": func(p *v1alpha1.PodProtector) {
			p.Generation++
			p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: nil}
		},
	} {
		t.Run(claim, func(t *testing.T) {
			w := newWorld(1, 4)
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
				t.Errorf("%d available by a stream that lags, want 4", got)
			}
			if settled := quota.CellOf(w.stored, worldCell).Aggregation.SettledVersion; settled == "" {
				t.Error("a later leader is not told that the count goes by a live list")
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
			if len(l.firsts) != 0 {
				t.Error("the live list is kept though the stream has come further")
			}
		})
	}
}

// A selector that cannot match any pod needs no live list.
func TestASelectorOfNoPodIsCountedWithoutAList(t *testing.T) {
	w := newWorld(1, 4)
	w.create(true)
	w.lead()
	w.newest().readLive = func(context.Context, string, string) (liveRead, error) {
		t.Error("a live list was asked for")
		return liveRead{}, nil
	}
	w.stored.Spec.Selector.MatchExpressions = []v1alpha1.PodSelectorRequirement{{Key: "app", Operator: "DoesNotExist"}}
	if got := w.aggregateNow(t); got != 0 {
		t.Errorf("%d available, want none", got)
	}
}

// After its first list a new leader needs no other one for the protectors that it knew before.
func TestALeaderListsOnceForWhatItKnows(t *testing.T) {
	w := newWorld(1, 4)
	w.create(true)
	w.lead()
	l := w.newest()
	l.firsts[w.key()] = &first{uid: w.stored.UID, spec: quota.CountedSpec(&w.stored.Spec)}
	w.remove("uid-1") // another list would not contain it
	if got := w.aggregateNow(t); got != 1 {
		t.Errorf("%d available, want the one of the leader's own list", got)
	}
	if w.aggregateNow(t); len(l.firsts) != 0 {
		t.Error("what is known from before is kept although it was counted")
	}
}

// The reservations of a protector that vanished may be unknown, and removals that were admitted before may take effect
// until the admission deadline. The pods must not be counted earlier.
func TestAProtectorThatIsRestoredIsCountedWhenAllHasComeToItsEnd(t *testing.T) {
	for claim, begin := range map[string]func(p *v1alpha1.PodProtector){
		"with the cells that it had": func(p *v1alpha1.PodProtector) { p.Status.Cells = quota.Restored(&p.Status) },
		"of which nothing is known": func(p *v1alpha1.PodProtector) {
			p.Annotations, p.Status = map[string]string{v1alpha1.AnnotationRestored: ""}, v1alpha1.PodProtectorStatus{Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionRestored, Status: metav1.ConditionTrue},
			}}
		},
	} {
		for _, anew := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, by a new leader %v", claim, anew), func(t *testing.T) {
				w := newWorld(1, 4)
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
				if anew { // it knew the protector before its pods were listed
					w.lead()
					w.newest().firsts[w.key()] = &first{uid: w.stored.UID, spec: quota.CountedSpec(&w.stored.Spec)}
				}
				counted := func() bool {
					if err := w.begin(w.newest()); err != nil {
						t.Fatal(err)
					}
					w.finish(len(w.pending) - 1)
					cell := quota.CellOf(w.stored, worldCell)
					return cell != nil && !cell.Aggregation.Void
				}
				if counted() {
					t.Fatal("counted at once")
				}
				w.clock = w.clock.Add(worldDeadline - time.Millisecond)
				if counted() {
					t.Fatal("counted before the admission deadline")
				}
				w.remove("uid-1") // by a removal that was admitted before; the stream lags
				w.clock = w.clock.Add(time.Millisecond)
				if !counted() {
					t.Fatal("not counted after the admission deadline")
				}
				if got := quota.CellOf(w.stored, worldCell).Aggregation.CountedReplicas; got != 4 {
					t.Errorf("%d available, want 4", got)
				}
			})
		}
	}
}

func TestAProtectorThatIsNotWholeIsNotCounted(t *testing.T) {
	w := newWorld(1, 4)
	w.create(true)
	w.lead()
	w.stored.Annotations = map[string]string{v1alpha1.AnnotationRestored: "uid"}
	w.clock = w.clock.Add(worldDeadline)
	for range 2 {
		if err := w.begin(w.newest()); err != nil {
			t.Fatal(err)
		}
		w.finish(len(w.pending) - 1)
		w.clock = w.clock.Add(worldDeadline)
	}
	if len(w.stored.Status.Cells) > 0 {
		t.Errorf("cells %+v before it has its status", w.stored.Status.Cells)
	}
}
