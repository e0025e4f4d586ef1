// Package rings_test tests a ClusterRing with sharders and shards that run as processes, and a real API server.
package rings_test

import (
	"context"
	"fmt"
	"testing"
	"time"
)

const (
	// initialObjects is the number of objects at the start. changesPerSecond is the rate at which they change during the test.
	initialObjects   = 6_000
	changesPerSecond = 100
)

// TestShardsScaleWhileObjectsChurn checks that two shards never process an object at the same time, and that no object is missed, while shards
// start, stop, die and freeze.
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
		l.killShard(shard(1))                                   // other shards get its objects when it must have stopped
		if err := l.processes.Terminate(shard(2)); err != nil { // it releases its Lease
			t.Fatal(err)
		}
		resume := l.freezeShard(shard(3)) // it resumes when other shards have its objects
		l.waitForIdle("two shards remain", 2)
		resume()
	})
	t.Logf("two shards: %v", l.waitForBalance(shard(0), shard(4)))
	t.Logf("%d visits of %d objects", l.recorder.countVisits(), len(l.objects.snapshot()))
	l.recorder.expectNoViolation(t)
}

// churnDuring runs do while objects churn.
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

// waitForIdle waits until the given number of shards is available and the sharder has no work left.
func (l *fixture) waitForIdle(what string, shards int32) {
	l.Helper()
	began := time.Now()
	l.waitUntil(what, func() (bool, string) {
		s := l.getRing().Status
		return s.AvailableShards == shards && s.Draining == 0 && s.Unassigned == 0 && l.isBalanced(), l.ringState()
	})
	l.Logf("%s after %.1f s", what, time.Since(began).Seconds())
}
