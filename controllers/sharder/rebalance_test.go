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

func TestNewShardGetsObjectsAndTheirDependents(t *testing.T) {
	l := newFixture(t, func(s *v1alpha1.ClusterRingSpec) {
		s.Resources = append(s.Resources, v1alpha1.RingResource{GroupResource: classes})
	})
	objects, controlled := l.createObjects(40)
	for i := range 10 {
		l.createClass(fmt.Sprint(i))
	}
	s := l.start()
	a := l.startShard("a")
	l.waitUntilBalanced(50)
	l.waitForControlled(objects, controlled)
	if n := s.metric(l, "breakwater_ring_assignments_total", causeUnassigned); n != 50 {
		t.Errorf("got %v assignments of objects without a shard, want none", n)
	}

	b := l.startShard("b")
	now := l.waitForStatus("both shards have objects", func(s *v1alpha1.ClusterRingStatus) string {
		if s.AvailableShards != 2 || len(s.Members) != 2 || s.Members[0].Assigned < 10 || s.Members[1].Assigned < 10 {
			return fmt.Sprintf("got shards %+v", s.Members)
		}
		return hasCondition(v1alpha1.ConditionBalanced, metav1.ConditionTrue, v1alpha1.ReasonBalanced)(s)
	})
	l.waitForControlled(objects, controlled)
	where := l.countByShard()
	if int64(where["a"]) != now.Status.Members[0].Assigned || where["a"]+where["b"] != 50 || where["drain"] != 0 {
		t.Errorf("got objects at %v, but the status %+v", where, now.Status.Members)
	}
	if n := s.metric(l, "breakwater_ring_moves_total", moveDone); n != float64(where["b"]) {
		t.Errorf("got %v moves, want %d", n, where["b"])
	}
	classes := 0
	for i := range 10 {
		if c := l.createClass(fmt.Sprint("late-", i)); c.Labels[v1alpha1.LabelShard(l.ring.Name)] == "" {
			t.Error("new IngressClass is not assigned")
		}
	}
	for _, o := range l.classes() {
		if ring.PlacementOf(l.ring.Name, o.Labels).Shard == "b" {
			classes++
		}
	}
	if classes == 0 {
		t.Error("new shard has no cluster-scoped object")
	}

	// In the opposite direction, no shard has to be asked.
	l.must(l.DeleteAllOf(t.Context(), l.classes()[0], client.MatchingLabels{l.label(): "true"}))
	b.leave()
	l.waitUntilBalanced(40)
	l.waitForControlled(objects, controlled)
	if where := l.countByShard(); where["a"] != 40 {
		t.Errorf("got objects at %v", where)
	}
	l.waitForEvent("ShardGone", "Shard b")
	_ = a
}

// Controlled objects stay with the shard of their controller until it has released the controller.
func TestDependentsStayUntilOwnerIsReleased(t *testing.T) {
	l := newFixture(t, func(s *v1alpha1.ClusterRingSpec) { s.DrainTimeoutSeconds, s.MaxConcurrentMoves = 60, 3 })
	objects, controlled := l.createObjects(40)
	l.start()
	a := l.startShard("a")
	l.waitUntilBalanced(40)
	l.waitForControlled(objects, controlled)
	a.hangs.Store(true)
	l.startShard("b")
	l.eventually("as many objects drain as may move at once", func() string {
		if where := l.countByShard(); where["drain"] != 3 || where["a"] != 40 {
			return fmt.Sprint("got objects at ", where)
		}
		return ""
	})
	l.waitForStatus("the status reports it", func(s *v1alpha1.ClusterRingStatus) string {
		if s.Draining != 3 || s.Assigned != 40 {
			return fmt.Sprintf("got %d assigned and %d draining objects", s.Assigned, s.Draining)
		}
		return hasCondition(v1alpha1.ConditionBalanced, metav1.ConditionFalse, v1alpha1.ReasonMoving, "to other shards, at most")(s)
	})
	// Passes that run meanwhile do not change that.
	l.passRequests <- l.ring.Name
	for range 20 {
		if where := l.countByShard(); where["drain"] != 3 {
			t.Fatalf("got objects at %v", where)
		}
	}
	for name, o := range controlled {
		if at := l.placement(o); at != (ring.Placement{Shard: "a"}) {
			t.Errorf("dependent of %s has the placement %+v before its owner is released", name, at)
		}
	}
	a.hangs.Store(false)
	l.waitUntilBalanced(40)
	l.waitForControlled(objects, controlled)
	if where := l.countByShard(); where["b"] < 3 || where["drain"] != 0 {
		t.Errorf("got objects at %v", where)
	}
}

// A slow move does not delay the controlled objects of those that were quick.
func TestDependentsFollowBeforeAllMovesComplete(t *testing.T) {
	l := newFixture(t)
	objects, controlled := l.createObjects(20)
	l.start()
	a := l.startShard("a")
	l.waitUntilBalanced(20)
	l.waitForControlled(objects, controlled)
	a.hangs.Store(true)
	l.startShard("b")
	var slow *corev1.ConfigMap
	l.eventually("one object drains", func() string {
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
		if where := l.countByShard(); where["drain"] != 1 || where["b"] == 0 {
			return fmt.Sprint("got objects at ", where)
		}
		return ""
	}
	l.eventually("all objects but one have moved", allButOne)
	l.waitForControlled(objects, controlled)
	if problem := allButOne(); problem != "" {
		t.Error(problem)
	}
	if at := l.placement(controlled[slow.Name]); at != (ring.Placement{Shard: "a"}) {
		t.Errorf("dependent of the slow object has the placement %+v", at)
	}
}

func TestShardThatDoesNotDrainIsRevoked(t *testing.T) {
	l := newFixture(t, func(s *v1alpha1.ClusterRingSpec) { s.DrainTimeoutSeconds = 1 })
	objects, controlled := l.createObjects(20)
	s := l.start()
	a := l.startShard("a")
	l.waitUntilBalanced(20)
	a.hangs.Store(true)
	l.startShard("b")
	l.waitForEvent("Warning DrainTimeout", "Shard a has not released configmaps "+l.namespace+"/c-", "for 1s")
	l.waitUntilBalanced(20)
	l.waitForControlled(objects, controlled)
	if where := l.countByShard(); where["b"] != 20 {
		t.Errorf("got objects at %v", where)
	}
	if n := s.metric(l, "breakwater_ring_revoked_shards_total"); n != 1 {
		t.Errorf("got %v revoked shards", n)
	}
	if a.works.Load() {
		t.Error("shard a did not observe its revocation")
	}
}

// A shard that has stopped and is to come back cannot respond: it is not put out for that.
func TestShortlyUnavailableShardIsNotRevoked(t *testing.T) {
	l := newFixture(t, func(s *v1alpha1.ClusterRingSpec) { s.DrainTimeoutSeconds, s.LeaseDurationSeconds = 2, 3 })
	l.createObjects(20)
	s := l.start()
	a := l.startShard("a")
	l.waitUntilBalanced(20)
	a.hangs.Store(true)
	l.startShard("b")
	l.eventually("some objects drain", func() string {
		if where := l.countByShard(); where["drain"] == 0 {
			return fmt.Sprint("got objects at ", where)
		}
		return ""
	})
	a.kill()
	l.must(a.lease(t.Context(), "a_"))
	late := time.Now().Add(2500 * time.Millisecond)
	for time.Now().Before(late) {
		if n := s.metric(l, "breakwater_ring_revoked_shards_total"); n != 0 {
			t.Fatal("shard was revoked")
		}
		<-time.After(50 * time.Millisecond)
	}
	a.hangs.Store(false)
	l.startShard("a")
	l.waitUntilBalanced(20)
	if where := l.countByShard(); where["a"] == 0 || where["b"] == 0 || s.metric(l, "breakwater_ring_revoked_shards_total") != 0 {
		t.Errorf("got objects at %v", where)
	}
}

func TestDrainsAreUndoneWhenObjectsStay(t *testing.T) {
	l := newFixture(t)
	l.createObjects(40)
	s := l.start()
	a := l.startShard("a")
	l.waitUntilBalanced(40)
	a.hangs.Store(true)
	b := l.startShard("b")
	l.eventually("some objects drain", func() string {
		if where := l.countByShard(); where["drain"] < 3 {
			return fmt.Sprint("got objects at ", where)
		}
		return ""
	})
	b.leave()
	l.waitUntilBalanced(40)
	if where := l.countByShard(); !maps.Equal(where, map[string]int{"a": 40}) {
		t.Errorf("got objects at %v", where)
	}
	if n := s.metric(l, "breakwater_ring_moves_total", moveDone); n != 0 {
		t.Errorf("got %v moves", n)
	}
}

func TestDeletedObjectEndsItsMove(t *testing.T) {
	l := newFixture(t, func(s *v1alpha1.ClusterRingSpec) { s.MaxConcurrentMoves = 1 })
	objects, _ := l.createObjects(20)
	s := l.start()
	a := l.startShard("a")
	l.waitUntilBalanced(20)
	a.hangs.Store(true)
	l.startShard("b")
	var moving *corev1.ConfigMap
	l.eventually("one object drains", func() string {
		for _, o := range objects {
			if l.placement(o).Draining {
				moving = o
				return ""
			}
		}
		return "no object drains"
	})
	l.must(l.Delete(t.Context(), moving))
	l.eventually("another object drains", func() string {
		if where := l.countByShard(); where["drain"] != 1 {
			return fmt.Sprint("got objects at ", where)
		}
		return ""
	})
	a.hangs.Store(false)
	l.waitUntilBalanced(19)
	if n := s.metric(l, "breakwater_ring_moves_total", moveDeleted); n != 1 {
		t.Errorf("got %v objects deleted while moving", n)
	}
}

// Moves do not lose the writes of users, and move objects that users write continuously.
func TestMovesPreserveUserWrites(t *testing.T) {
	l := newFixture(t)
	objects, _ := l.createObjects(40)
	s := l.start()
	l.startShard("a")
	l.waitUntilBalanced(40)
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
	l.startShard("b")
	l.waitForStatus("shard b has objects", func(s *v1alpha1.ClusterRingStatus) string {
		if len(s.Members) < 2 || s.Members[1].Assigned < 3 {
			return fmt.Sprintf("got shards %+v", s.Members)
		}
		return hasCondition(v1alpha1.ConditionBalanced, metav1.ConditionTrue, v1alpha1.ReasonBalanced)(s)
	})
	end.Store(true)
	<-done
	for i, o := range objects {
		if l.placement(o); o.Data["n"] != fmt.Sprint(written[i]) {
			t.Errorf("%s was written %d times, but has %s", o.Name, written[i], o.Data["n"])
		}
	}
	t.Logf("got %v conflicts", s.metric(l, "breakwater_ring_patch_conflicts_total"))
}

func TestRingChangeAbortsMoves(t *testing.T) {
	l := newFixture(t, func(s *v1alpha1.ClusterRingSpec) { s.MaxConcurrentMoves = 2 })
	l.createObjects(40) // of 20, one set of names moves only 4 to the second shard
	s := l.start()
	a := l.startShard("a")
	l.waitUntilBalanced(40)
	a.hangs.Store(true)
	l.startShard("b")
	l.eventually("some objects drain", func() string {
		if where := l.countByShard(); where["drain"] != 2 {
			return fmt.Sprint("got objects at ", where)
		}
		return ""
	})
	l.edit(func(s *v1alpha1.ClusterRingSpec) { s.MaxConcurrentMoves = 5 })
	l.eventually("more objects drain", func() string {
		if where := l.countByShard(); where["drain"] != 5 {
			return fmt.Sprint("got objects at ", where)
		}
		return ""
	})
	if n := s.metric(l, "breakwater_ring_passes_total", passOutdated); n == 0 {
		t.Error("no pass was abandoned")
	}
	a.hangs.Store(false)
	l.waitUntilBalanced(40)
}

func TestNewLeaderContinuesMoves(t *testing.T) {
	l := newFixture(t, func(s *v1alpha1.ClusterRingSpec) { s.MaxConcurrentMoves, s.DrainTimeoutSeconds = 4, 60 })
	objects, controlled := l.createObjects(30)
	first := l.start()
	a := l.startShard("a")
	l.waitUntilBalanced(30)
	a.hangs.Store(true)
	l.startShard("b")
	four := func() string {
		if where := l.countByShard(); where["drain"] != 4 {
			return fmt.Sprint("got objects at ", where)
		}
		return ""
	}
	l.eventually("some objects drain", four)
	first.stop()
	second := l.start()
	l.eventually("the new leader has made a pass", func() string {
		if n := second.metric(l, "breakwater_ring_objects", "draining"); n != 4 {
			return fmt.Sprintf("new leader observed %v", n)
		}
		return ""
	})
	for range 10 {
		if problem := four(); problem != "" {
			t.Fatal(problem)
		}
	}
	a.hangs.Store(false)
	l.waitUntilBalanced(30)
	l.waitForControlled(objects, controlled)
	if n := second.metric(l, "breakwater_ring_moves_total", moveDone); n < 5 {
		t.Errorf("got %v moves", n)
	}
}

// The webhook may also be unavailable while objects move.
func TestMovedObjectIsAssignedWithoutWebhook(t *testing.T) {
	l := newFixture(t)
	objects, controlled := l.createObjects(40)
	s := l.start()
	l.startShard("a")
	l.waitUntilBalanced(40)
	l.webhookFails.Store(true)
	l.startShard("b")
	l.waitForStatus("shard b has objects", func(s *v1alpha1.ClusterRingStatus) string {
		if len(s.Members) < 2 || s.Members[1].Assigned < 3 {
			return fmt.Sprintf("got shards %+v", s.Members)
		}
		return hasCondition(v1alpha1.ConditionBalanced, metav1.ConditionTrue, v1alpha1.ReasonBalanced)(s)
	})
	l.waitForControlled(objects, controlled)
	if where := l.countByShard(); where["a"]+where["b"] != 40 || s.metric(l, "breakwater_ring_moves_total", moveUnassigned) != float64(where["b"]) {
		t.Errorf("got objects at %v", where)
	}
}

func TestMaxLoadPercentBoundsShards(t *testing.T) {
	l := newFixture(t, func(s *v1alpha1.ClusterRingSpec) { s.MaxLoadPercent, s.TokensPerShard = ptr.To[int32](110), 1 })
	l.webhookFails.Store(true) // the webhook of the lab does not enforce bounds
	objects, controlled := l.createObjects(40)
	l.start()
	for _, name := range []string{"a", "b", "c"} {
		l.startShard(name)
	}
	within := func(most int) {
		t.Helper()
		l.waitUntilBalanced(40)
		l.eventually("no shard has more objects than allowed", func() string {
			for shard, n := range l.countByShard() {
				if n > most {
					return fmt.Sprintf("shard %s has %d objects", shard, n)
				}
			}
			return ""
		})
	}
	within(15) // of 13.3, 110 %
	l.startShard("d")
	l.waitForStatus("there are four shards", func(s *v1alpha1.ClusterRingStatus) string {
		if s.AvailableShards != 4 || s.Members[3].Assigned == 0 {
			return fmt.Sprintf("got shards %+v", s.Members)
		}
		return ""
	})
	within(11)
	l.waitForControlled(objects, controlled)
}

func TestRingsOfOneResourceAreIndependent(t *testing.T) {
	l := newFixture(t)
	objects, _ := l.createObjects(30) // with 10 objects, one set of names in 1,000 gave the second shard none
	another := &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: l.ring.Name + "-2", Labels: l.ring.Labels}, Spec: l.ring.Spec}
	l.must(l.Create(t.Context(), another))
	t.Cleanup(func() { _ = l.Delete(newContext(), another) })
	l.start()
	l.startShard("a")
	other := &fixture{T: l.T, Client: l.Client, namespace: l.namespace, ring: another, shards: map[string]*shard{}}
	other.startShard("x")
	l.waitUntilBalanced(30)
	other.waitUntilBalanced(30)
	y := other.startShard("y")
	other.waitForStatus("shard y has objects", func(s *v1alpha1.ClusterRingStatus) string {
		if len(s.Members) != 2 || s.Members[1].Assigned == 0 {
			return fmt.Sprintf("got shards %+v", s.Members)
		}
		return hasCondition(v1alpha1.ConditionBalanced, metav1.ConditionTrue, v1alpha1.ReasonBalanced)(s)
	})
	y.leave()
	for _, o := range objects {
		other.waitForPlacement(o, ring.Placement{Shard: "x"})
		l.waitForPlacement(o, ring.Placement{Shard: "a"})
	}
}
