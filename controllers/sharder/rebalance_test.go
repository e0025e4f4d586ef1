package sharder

import (
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

func TestANewShardGetsItsShareAndWhatThatControlsFollows(t *testing.T) {
	l := newLab(t, func(s *v1alpha1.ClusterRingSpec) {
		s.Resources = append(s.Resources, v1alpha1.RingResource{GroupResource: classes})
	})
	objects, controlled := l.spread(40)
	for i := range 10 {
		l.class(fmt.Sprint(i))
	}
	s := l.start()
	a := l.shard("a")
	l.balanced(50)
	l.followed(objects, controlled)
	if n := s.metric(l, "breakwater_ring_assignments_total", causeUnassigned); n != 50 {
		t.Errorf("%v were assigned that nobody worked on", n)
	}

	b := l.shard("b")
	now := l.ready("both have some", func(s *v1alpha1.ClusterRingStatus) string {
		if s.AvailableShards != 2 || len(s.Members) != 2 || s.Members[0].Assigned < 10 || s.Members[1].Assigned < 10 {
			return fmt.Sprintf("shards %+v", s.Members)
		}
		return says(v1alpha1.ConditionBalanced, metav1.ConditionTrue, v1alpha1.ReasonBalanced)(s)
	})
	l.followed(objects, controlled)
	where := l.where()
	if int64(where["a"]) != now.Status.Members[0].Assigned || where["a"]+where["b"] != 50 || where["drain"] != 0 {
		t.Errorf("objects are at %v, and the status says %+v", where, now.Status.Members)
	}
	if n := s.metric(l, "breakwater_ring_moves_total", moveDone); n != float64(where["b"]) {
		t.Errorf("%v moves, want %d", n, where["b"])
	}
	classes := 0
	for i := range 10 {
		if c := l.class(fmt.Sprint("late-", i)); c.Labels[v1alpha1.LabelShard(l.ring.Name)] == "" {
			t.Error("a class that is made now is not assigned")
		}
	}
	for _, o := range l.classes() {
		if ring.PlacementOf(l.ring.Name, o.Labels).Shard == "b" {
			classes++
		}
	}
	if classes == 0 {
		t.Error("no object of cluster scope is with the new shard")
	}

	// In the opposite direction, no shard has to be asked.
	l.must(l.DeleteAllOf(t.Context(), l.classes()[0], client.MatchingLabels{l.label(): "true"}))
	b.leave()
	l.balanced(40)
	l.followed(objects, controlled)
	if where := l.where(); where["a"] != 40 {
		t.Errorf("objects are at %v", where)
	}
	l.announced("ShardGone", "Shard b")
	_ = a
}

// Controlled objects stay with the shard of their controller until it has released the controller.
func TestWhatAnObjectControlsStaysUntilItsShardHasLetGoOfIt(t *testing.T) {
	l := newLab(t, func(s *v1alpha1.ClusterRingSpec) { s.DrainTimeoutSeconds, s.MaxConcurrentMoves = 60, 3 })
	objects, controlled := l.spread(20)
	l.start()
	a := l.shard("a")
	l.balanced(20)
	l.followed(objects, controlled)
	a.hangs.Store(true)
	l.shard("b")
	l.eventually("as many are asked for as may move at once", func() string {
		if where := l.where(); where["drain"] != 3 || where["a"] != 20 {
			return fmt.Sprint("objects are at ", where)
		}
		return ""
	})
	l.ready("the status says so", func(s *v1alpha1.ClusterRingStatus) string {
		if s.Draining != 3 || s.Assigned != 20 {
			return fmt.Sprintf("%d assigned, %d draining", s.Assigned, s.Draining)
		}
		return says(v1alpha1.ConditionBalanced, metav1.ConditionFalse, v1alpha1.ReasonMoving, "objects are to go to other shards")(s)
	})
	// Passes that run meanwhile do not change that.
	l.kicks <- l.ring.Name
	for range 20 {
		if where := l.where(); where["drain"] != 3 {
			t.Fatalf("objects are at %v", where)
		}
	}
	for name, o := range controlled {
		if at := l.placement(o); at != (ring.Placement{Shard: "a"}) {
			t.Errorf("what %s controls is at %+v, before that is let go of", name, at)
		}
	}
	a.hangs.Store(false)
	l.balanced(20)
	l.followed(objects, controlled)
	if where := l.where(); where["b"] < 3 || where["drain"] != 0 {
		t.Errorf("objects are at %v", where)
	}
}

// A slow move does not delay the controlled objects of those that were quick.
func TestWhatAnObjectControlsFollowsBeforeAllHaveMoved(t *testing.T) {
	l := newLab(t)
	objects, controlled := l.spread(20)
	l.start()
	a := l.shard("a")
	l.balanced(20)
	l.followed(objects, controlled)
	a.hangs.Store(true)
	l.shard("b")
	var slow *corev1.ConfigMap
	l.eventually("one is asked for", func() string {
		for _, o := range objects {
			if l.placement(o).Draining {
				slow = o
				return ""
			}
		}
		return "none is"
	})
	a.keeps.Store(&slow.UID)
	a.hangs.Store(false)
	allButOne := func() string {
		if where := l.where(); where["drain"] != 1 || where["b"] == 0 {
			return fmt.Sprint("objects are at ", where)
		}
		return ""
	}
	l.eventually("all but one have moved", allButOne)
	l.followed(objects, controlled)
	if problem := allButOne(); problem != "" {
		t.Error(problem)
	}
	if at := l.placement(controlled[slow.Name]); at != (ring.Placement{Shard: "a"}) {
		t.Errorf("what the slow one controls is at %+v", at)
	}
}

func TestADrainThatIsNotAnsweredCostsTheShardItsPlace(t *testing.T) {
	l := newLab(t, func(s *v1alpha1.ClusterRingSpec) { s.DrainTimeoutSeconds = 1 })
	objects, controlled := l.spread(20)
	s := l.start()
	a := l.shard("a")
	l.balanced(20)
	a.hangs.Store(true)
	l.shard("b")
	l.announced("Warning DrainTimeout", "Shard a has not let go of configmaps "+l.namespace+"/c-", "for 1s")
	l.balanced(20)
	l.followed(objects, controlled)
	if where := l.where(); where["b"] != 20 {
		t.Errorf("objects are at %v", where)
	}
	if n := s.metric(l, "breakwater_ring_revoked_shards_total"); n != 1 {
		t.Errorf("%v shards were put out", n)
	}
	if a.works.Load() {
		t.Error("shard a has not noticed")
	}
}

// A shard that has stopped and is to come back cannot respond: it is not put out for that.
func TestAShardThatIsAwayForAMomentIsNotPutOut(t *testing.T) {
	l := newLab(t, func(s *v1alpha1.ClusterRingSpec) { s.DrainTimeoutSeconds, s.LeaseDurationSeconds = 2, 3 })
	l.spread(20)
	s := l.start()
	a := l.shard("a")
	l.balanced(20)
	a.hangs.Store(true)
	l.shard("b")
	l.eventually("some are asked for", func() string {
		if where := l.where(); where["drain"] == 0 {
			return fmt.Sprint("objects are at ", where)
		}
		return ""
	})
	a.kill()
	l.must(a.lease(t.Context(), "a_"))
	late := time.Now().Add(2500 * time.Millisecond)
	for time.Now().Before(late) {
		if n := s.metric(l, "breakwater_ring_revoked_shards_total"); n != 0 {
			t.Fatal("it was put out")
		}
		<-time.After(50 * time.Millisecond)
	}
	a.hangs.Store(false)
	l.shard("a")
	l.balanced(20)
	if where := l.where(); where["a"] == 0 || where["b"] == 0 || s.metric(l, "breakwater_ring_revoked_shards_total") != 0 {
		t.Errorf("objects are at %v", where)
	}
}

func TestDrainsAreTakenBackWhenObjectsAreToStay(t *testing.T) {
	l := newLab(t)
	l.spread(20)
	s := l.start()
	a := l.shard("a")
	l.balanced(20)
	a.hangs.Store(true)
	b := l.shard("b")
	l.eventually("some are asked for", func() string {
		if where := l.where(); where["drain"] < 3 {
			return fmt.Sprint("objects are at ", where)
		}
		return ""
	})
	b.leave()
	l.balanced(20)
	if where := l.where(); !maps.Equal(where, map[string]int{"a": 20}) {
		t.Errorf("objects are at %v", where)
	}
	if n := s.metric(l, "breakwater_ring_moves_total", moveDone); n != 0 {
		t.Errorf("%v moves", n)
	}
}

func TestAnObjectThatIsDeletedWhileItMovesIsNotWaitedFor(t *testing.T) {
	l := newLab(t, func(s *v1alpha1.ClusterRingSpec) { s.MaxConcurrentMoves = 1 })
	objects, _ := l.spread(20)
	s := l.start()
	a := l.shard("a")
	l.balanced(20)
	a.hangs.Store(true)
	l.shard("b")
	var moving *corev1.ConfigMap
	l.eventually("one is asked for", func() string {
		for _, o := range objects {
			if l.placement(o).Draining {
				moving = o
				return ""
			}
		}
		return "none is drained"
	})
	l.must(l.Delete(t.Context(), moving))
	l.eventually("another one is", func() string {
		if where := l.where(); where["drain"] != 1 {
			return fmt.Sprint("objects are at ", where)
		}
		return ""
	})
	a.hangs.Store(false)
	l.balanced(19)
	if n := s.metric(l, "breakwater_ring_moves_total", moveDeleted); n != 1 {
		t.Errorf("%v were deleted on their way", n)
	}
}

// Moves do not lose the writes of users, and move objects that users write continuously.
func TestMovesDoNotUndoWhatUsersWrite(t *testing.T) {
	l := newLab(t)
	objects, _ := l.spread(40) // with 20 objects, one set of names gave the second shard only 2
	s := l.start()
	l.shard("a")
	l.balanced(40)
	var end atomic.Bool
	written, done := make([]int, len(objects)), make(chan struct{})
	go func() {
		defer close(done)
		for !end.Load() {
			for i, o := range objects {
				now := &corev1.ConfigMap{}
				if l.Get(t.Context(), client.ObjectKeyFromObject(o), now) != nil {
					continue
				}
				now.Data = map[string]string{"n": fmt.Sprint(written[i] + 1)}
				if err := l.Update(t.Context(), now); err == nil {
					written[i]++
				} else if !apierrors.IsConflict(err) {
					t.Error(err)
					return
				}
			}
		}
	}()
	l.shard("b")
	l.ready("b has some", func(s *v1alpha1.ClusterRingStatus) string {
		if len(s.Members) < 2 || s.Members[1].Assigned < 3 {
			return fmt.Sprintf("shards %+v", s.Members)
		}
		return says(v1alpha1.ConditionBalanced, metav1.ConditionTrue, v1alpha1.ReasonBalanced)(s)
	})
	end.Store(true)
	<-done
	for i, o := range objects {
		if l.placement(o); o.Data["n"] != fmt.Sprint(written[i]) {
			t.Errorf("%s was written %d times, and says %s", o.Name, written[i], o.Data["n"])
		}
	}
	t.Logf("%v conflicts", s.metric(l, "breakwater_ring_patch_conflicts_total"))
}

func TestARingThatChangesWhileObjectsMoveIsGoneByAtOnce(t *testing.T) {
	l := newLab(t, func(s *v1alpha1.ClusterRingSpec) { s.MaxConcurrentMoves = 2 })
	l.spread(20)
	s := l.start()
	a := l.shard("a")
	l.balanced(20)
	a.hangs.Store(true)
	l.shard("b")
	l.eventually("some are asked for", func() string {
		if where := l.where(); where["drain"] != 2 {
			return fmt.Sprint("objects are at ", where)
		}
		return ""
	})
	l.edit(func(s *v1alpha1.ClusterRingSpec) { s.MaxConcurrentMoves = 5 })
	l.eventually("more are asked for", func() string {
		if where := l.where(); where["drain"] != 5 {
			return fmt.Sprint("objects are at ", where)
		}
		return ""
	})
	if n := s.metric(l, "breakwater_ring_passes_total", passOutdated); n == 0 {
		t.Error("no pass was given up")
	}
	a.hangs.Store(false)
	l.balanced(20)
}

func TestANewLeaderGoesOnWithWhatMoves(t *testing.T) {
	l := newLab(t, func(s *v1alpha1.ClusterRingSpec) { s.MaxConcurrentMoves, s.DrainTimeoutSeconds = 4, 60 })
	objects, controlled := l.spread(30)
	first := l.start()
	a := l.shard("a")
	l.balanced(30)
	a.hangs.Store(true)
	l.shard("b")
	four := func() string {
		if where := l.where(); where["drain"] != 4 {
			return fmt.Sprint("objects are at ", where)
		}
		return ""
	}
	l.eventually("some are asked for", four)
	first.stop()
	second := l.start()
	l.eventually("the new one has looked", func() string {
		if n := second.metric(l, "breakwater_ring_objects", "draining"); n != 4 {
			return fmt.Sprintf("it has seen %v", n)
		}
		return ""
	})
	for range 10 {
		if problem := four(); problem != "" {
			t.Fatal(problem)
		}
	}
	a.hangs.Store(false)
	l.balanced(30)
	l.followed(objects, controlled)
	if n := second.metric(l, "breakwater_ring_moves_total", moveDone); n < 5 {
		t.Errorf("%v moves", n)
	}
}

// The webhook may also be unavailable while objects move.
func TestWhatTheWebhookMissesWhileObjectsMoveIsAssignedAtOnce(t *testing.T) {
	l := newLab(t)
	objects, controlled := l.spread(20)
	s := l.start()
	l.shard("a")
	l.balanced(20)
	l.isAway.Store(true)
	l.shard("b")
	l.ready("b has some", func(s *v1alpha1.ClusterRingStatus) string {
		if len(s.Members) < 2 || s.Members[1].Assigned < 3 {
			return fmt.Sprintf("shards %+v", s.Members)
		}
		return says(v1alpha1.ConditionBalanced, metav1.ConditionTrue, v1alpha1.ReasonBalanced)(s)
	})
	l.followed(objects, controlled)
	if where := l.where(); where["a"]+where["b"] != 20 || s.metric(l, "breakwater_ring_moves_total", moveUnassigned) != float64(where["b"]) {
		t.Errorf("objects are at %v", where)
	}
}

func TestNoShardHasMoreThanTheRingAllows(t *testing.T) {
	l := newLab(t, func(s *v1alpha1.ClusterRingSpec) { s.MaxLoadPercent, s.TokensPerShard = ptr.To[int32](110), 1 })
	l.isAway.Store(true) // the webhook of the lab does not enforce bounds
	objects, controlled := l.spread(40)
	l.start()
	for _, name := range []string{"a", "b", "c"} {
		l.shard(name)
	}
	within := func(most int) {
		t.Helper()
		l.balanced(40)
		l.eventually("none has more", func() string {
			for shard, n := range l.where() {
				if n > most {
					return fmt.Sprintf("%s has %d", shard, n)
				}
			}
			return ""
		})
	}
	within(15) // of 13.3, 110 %
	l.shard("d")
	l.ready("there are four", func(s *v1alpha1.ClusterRingStatus) string {
		if s.AvailableShards != 4 || s.Members[3].Assigned == 0 {
			return fmt.Sprintf("shards %+v", s.Members)
		}
		return ""
	})
	within(11)
	l.followed(objects, controlled)
}

func TestTwoRingsOfOneResourceDoNotMindEachOther(t *testing.T) {
	l := newLab(t)
	objects, _ := l.spread(10)
	another := &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: l.ring.Name + "-2", Labels: l.ring.Labels}, Spec: l.ring.Spec}
	l.must(l.Create(t.Context(), another))
	t.Cleanup(func() { _ = l.Delete(newContext(), another) })
	l.start()
	l.shard("a")
	other := &lab{T: l.T, Client: l.Client, namespace: l.namespace, ring: another, shards: map[string]*shard{}}
	other.shard("x")
	l.balanced(10)
	other.balanced(10)
	y := other.shard("y")
	other.ready("y has some", func(s *v1alpha1.ClusterRingStatus) string {
		if len(s.Members) != 2 || s.Members[1].Assigned == 0 {
			return fmt.Sprintf("shards %+v", s.Members)
		}
		return says(v1alpha1.ConditionBalanced, metav1.ConditionTrue, v1alpha1.ReasonBalanced)(s)
	})
	y.leave()
	for _, o := range objects {
		other.at(o, ring.Placement{Shard: "x"})
		l.at(o, ring.Placement{Shard: "a"})
	}
}
