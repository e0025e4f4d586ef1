// Package rings_test plays a ClusterRing as its users have it: sharders and shards as processes, over a real apiserver.
package rings_test

import (
	"context"
	"fmt"
	"testing"
	"time"
)

const (
	// initialObjects is how many objects there are at first, and changes how many of them change in a second, all the while.
	initialObjects   = 6_000
	changesPerSecond = 100
)

// Whatever shards there are, and whatever happens to them, no object is worked on by two at once and none is forgotten.
func TestShardsScaleWhileObjectsChurn(t *testing.T) {
	l := newFixture(t, 10, nil)
	shard := func(n int) string { return fmt.Sprintf("shard-%d", n) }
	l.startShard(shard(0))
	l.objects.forEach(initialObjects, func(ctx context.Context, _ int) error { return l.objects.createObject(ctx) })
	l.waitForBalance(shard(0))

	l.churnDuring(func() {
		for n := 1; n < 5; n++ {
			l.startShard(shard(n))
		}
		l.waitForIdle("all objects are spread over five shards", 5)
	})
	placed := l.waitForBalance(shard(0), shard(1), shard(2), shard(3), shard(4))
	t.Logf("five shards: %v", placed)

	l.churnDuring(func() {
		l.killShard(shard(1))                                   // its objects go to others when it must have stopped
		if err := l.processes.Terminate(shard(2)); err != nil { // it gives its Lease up
			t.Fatal(err)
		}
		resume := l.freezeShard(shard(3)) // it wakes up when other shards have its objects
		l.waitForIdle("two shards remain", 2)
		resume()
	})
	t.Logf("two shards: %v", l.waitForBalance(shard(0), shard(4)))
	t.Logf("%d visits of %d objects", l.recorder.countVisits(), len(l.objects.snapshot()))
	l.recorder.expectNoViolation(t)
}

// churnDuring lets objects churn while something is done.
func (l *fixture) churnDuring(do func()) {
	ctx, stop := context.WithCancel(l.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.objects.churn(ctx, changesPerSecond)
	}()
	defer func() {
		stop()
		<-ended
	}()
	do()
}

// waitForIdle waits until that many shards are available and the sharder has nothing left to do.
func (l *fixture) waitForIdle(what string, shards int32) {
	l.Helper()
	began := time.Now()
	l.waitUntil(what, func() (bool, string) {
		s := l.getRing().Status
		return s.AvailableShards == shards && s.Draining == 0 && s.Unassigned == 0 && l.isBalanced(), l.ringState()
	})
	l.Logf("%s after %.1f s", what, time.Since(began).Seconds())
}
