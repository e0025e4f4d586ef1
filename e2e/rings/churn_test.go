// Package rings_test plays a ClusterRing as its users have it: sharders and shards as processes, over a real apiserver.
package rings_test

import (
	"context"
	"fmt"
	"testing"
	"time"
)

const (
	// churned is how many objects there are at first, and changes how many of them change in a second, all the while.
	churned = 6_000
	changes = 100
)

// Whatever shards there are, and whatever happens to them, no object is worked on by two at once and none is forgotten.
func TestShardsComeAndGoWhileObjectsChurn(t *testing.T) {
	l := newLab(t, 10, nil)
	shard := func(n int) string { return fmt.Sprintf("shard-%d", n) }
	l.start(shard(0))
	l.objects.each(churned, func(ctx context.Context, _ int) error { return l.objects.make(ctx) })
	l.awaitBalance(shard(0))

	l.during(func() {
		for n := 1; n < 5; n++ {
			l.start(shard(n))
		}
		l.awaitRest("all objects are spread over five shards", 5)
	})
	placed := l.awaitBalance(shard(0), shard(1), shard(2), shard(3), shard(4))
	t.Logf("five shards: %v", placed)

	l.during(func() {
		l.kill(shard(1))                                        // its objects go to others when it must have stopped
		if err := l.processes.Terminate(shard(2)); err != nil { // it gives its Lease up
			t.Fatal(err)
		}
		thaw := l.freeze(shard(3)) // it wakes up when others have its objects
		l.awaitRest("two shards are left", 2)
		thaw()
	})
	t.Logf("two shards: %v", l.awaitBalance(shard(0), shard(4)))
	t.Logf("%d visits of %d objects", l.recorder.ended(), len(l.objects.snapshot()))
	l.recorder.wantNoViolation(t)
}

// during lets objects churn while something is done.
func (l *lab) during(do func()) {
	ctx, stop := context.WithCancel(l.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.objects.churn(ctx, changes)
	}()
	defer func() {
		stop()
		<-ended
	}()
	do()
}

// awaitRest waits until that many shards are available and the sharder has nothing left to do.
func (l *lab) awaitRest(what string, shards int32) {
	l.Helper()
	began := time.Now()
	l.await(what, func() (bool, string) {
		s := l.get().Status
		return s.AvailableShards == shards && s.Draining == 0 && s.Unassigned == 0 && l.isBalanced(), l.state()
	})
	l.Logf("%s after %.1f s", what, time.Since(began).Seconds())
}
