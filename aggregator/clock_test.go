package aggregator

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func TestSteadyClock(t *testing.T) {
	type step struct {
		// after is by how much the monotonic clock advances, and set is the additional step of the wall clock.
		after, set time.Duration
		want       time.Duration
		back       bool
	}
	for claim, steps := range map[string][]step{
		"follows the wall clock":       {{0, 0, 0, false}, {time.Minute, 0, time.Minute, false}, {time.Hour, 0, 61 * time.Minute, false}},
		"follows a small step":         {{0, 0, 0, false}, {time.Second, 900 * time.Millisecond, 1900 * time.Millisecond, false}},
		"follows a small step back":    {{0, 0, 0, false}, {time.Second, -900 * time.Millisecond, 100 * time.Millisecond, false}},
		"follows a step back at once":  {{0, 0, 0, false}, {time.Second, -time.Hour, time.Second - time.Hour, true}, {time.Second, 0, 2*time.Second - time.Hour, false}},
		"does not follow a step ahead": {{0, 0, 0, false}, {time.Second, time.Hour, time.Second, false}, {time.Minute, 0, 61 * time.Second, false}},
		"does not when it is corrected": {
			{0, 0, 0, false}, {time.Second, time.Hour, time.Second, false}, {time.Minute, -time.Hour, 61 * time.Second, false}, {time.Minute, 0, 121 * time.Second, false}},
		"follows a step ahead that lasts": {
			{0, 0, 0, false}, {time.Second, time.Hour, time.Second, false}, {stepAdoptedAfter, 0, stepAdoptedAfter + time.Second + time.Hour, false}},
		"starts the time of another step ahead again": {
			{0, 0, 0, false}, {time.Second, time.Hour, time.Second, false}, {time.Second, -time.Hour, 2 * time.Second, false},
			{time.Second, time.Hour, 3 * time.Second, false}, {stepAdoptedAfter - time.Second, 0, stepAdoptedAfter + 2*time.Second, false}},
	} {
		t.Run(claim, func(t *testing.T) {
			start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
			wall, monotonic := start, start
			c := &steadyClock{wall: func() time.Time { return wall }, monotonic: func() time.Time { return monotonic }}
			for i, s := range steps {
				monotonic = monotonic.Add(s.after)
				wall = wall.Add(s.after + s.set)
				if got := c.now().Sub(start); got != s.want {
					t.Errorf("step %d: now() is %s after the start, want %s", i, got, s.want)
				}
				if got := c.wasSetBack(); got != s.back {
					t.Errorf("step %d: wasSetBack() = %t, want %t", i, got, s.back)
				}
			}
		})
	}
}

// One pod becomes available by time while another one is removed. The counts are equal, but must be written for their time.
func TestEqualCountsAreWrittenWhenAPodBecameAvailableByTime(t *testing.T) {
	w := newSimulatedCell(1, 0)
	w.stored.Spec.MinReadySeconds = 60
	ready := func(name string, ago time.Duration) {
		p := samplePod(name, name, "1", map[string]string{"app": "web"})
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.clock.Add(-ago))
		w.pods[p.UID] = p
		w.recordEvent(p, false)
	}
	ready("old", time.Hour)
	ready("young", 30*time.Second)
	w.lead()
	l := w.newest()
	aggregate := func() (outcome, int32) {
		t.Helper()
		p := w.stored.DeepCopy()
		done, err := l.reconciler.aggregate(t.Context(), w.key(), p)
		if err != nil {
			t.Fatal(err)
		}
		w.store(p)
		return done, quota.CellOf(p, simulatedCellName).Aggregation.CountedReplicas
	}
	aggregate()
	for range 2 {
		if done, counted := aggregate(); counted != 1 || done.becameAvailable {
			t.Fatalf("aggregate() counted %d, aged %t, want 1 and nothing to write", counted, done.becameAvailable)
		}
	}
	w.clock = w.clock.Add(31 * time.Second)
	old := w.pods["old"]
	delete(w.pods, old.UID)
	w.recordEvent(old, true)
	l.deliver(w.events, len(w.events))
	if done, counted := aggregate(); counted != 1 || !done.becameAvailable {
		t.Errorf("aggregate() counted %d, aged %t, want 1 and a write for the time of the count", counted, done.becameAvailable)
	}
	if done, _ := aggregate(); done.becameAvailable {
		t.Error("aggregate() is to be written again although the time of the counts is stored")
	}
}

func TestClockSetBackRecountsProtectorsWithMinReadySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSimulatedCell(1, 0)
		w.lead()
		leader := w.newest().enqueuer
		informer := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &v1alpha1.PodProtector{}, 0, toolscache.Indexers{})
		for name, seconds := range map[string]int32{"by-age": 60, "at-once": 0} {
			p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
			p.Spec.MinReadySeconds = seconds
			if err := informer.GetStore().Add(p); err != nil {
				t.Fatal(err)
			}
		}
		set := time.Duration(0)
		leader.informer, leader.clock = informer, &steadyClock{wall: func() time.Time { return time.Now().Add(set) }, monotonic: time.Now}
		leader.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]())
		defer leader.queue.ShutDown()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		w.newest().startParts(ctx, &running) // what a leader and a shard have in common
		defer running.Wait()
		defer cancel()
		<-time.After(time.Minute)
		synctest.Wait()
		if n := leader.queue.Len(); n != 0 {
			t.Errorf("%d protectors are counted again although the clock was not set, want none", n)
		}
		set = -time.Hour
		<-time.After(2 * clockReadEvery)
		synctest.Wait()
		if n := leader.queue.Len(); n != 1 {
			t.Fatalf("%d protectors are counted again, want 1", n)
		}
		if key, _ := leader.queue.Get(); key.Name != "by-age" {
			t.Errorf("%s is counted again, want by-age", key)
		}
	})
}
