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
	initialObjects   = 2_000
	changesPerSecond = 50
)

// TestShardsScaleWhileObjectsChurn checks that two shards never process an object at the same time, and that no object is missed, while shards
// start, stop, die and freeze, and while a rolling update replaces them.
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

	l.rollOverDeployment([]string{shard(0), shard(4)}, []string{shard(5), shard(6)})
	l.rollOverStatefulSet(shard(5), shard(6))
	t.Logf("%d visits of %d objects", l.recorder.countVisits(), len(l.objects.snapshot()))
	l.recorder.expectNoViolation(t)
}

// While a rolling update replaces them, shards work on an object for this time, so that a move can meet work in progress.
const rolloutWork = "--work=10ms"

// restartDelay is how long a pod of a StatefulSet takes to start: longer than the second after which the sharder assigns the objects of a dead
// shard, and shorter than twice leaseSeconds, after which it assigns those of a shard that should come back.
const restartDelay = 4 * time.Second

// rollOverDeployment replaces shards one by one, as a Deployment does: a shard of a new name joins, then one of the former shards stops.
func (l *fixture) rollOverDeployment(former, replacements []string) {
	l.Helper()
	l.churnDuring(func() {
		for i, name := range former {
			l.startShard(replacements[i], "--stable", rolloutWork)
			if err := l.processes.Terminate(name); err != nil {
				l.Fatal(err)
			}
		}
		l.waitForIdle("the new shards have all objects", int32(len(replacements)))
	})
	l.Logf("after the rolling update of a Deployment: %v", l.waitForBalance(replacements...))
}

// rollOverStatefulSet replaces shards one by one, as a StatefulSet does: a shard stops, and the next process of its name joins. No object changes
// its shard.
func (l *fixture) rollOverStatefulSet(shards ...string) {
	l.Helper()
	before, visits := l.shardOfEach(), l.recorder.countVisits()
	l.recorder.expectOwners(before)
	l.churnDuring(func() {
		for _, name := range shards {
			if err := l.processes.Terminate(name); err != nil {
				l.Fatal(err)
			}
			stopped := time.Now()
			l.waitUntil("the next pod starts", func() (bool, string) { return time.Since(stopped) > restartDelay, "" })
			l.startShard(name, "--stable", rolloutWork)
		}
		l.waitForIdle("the shards are back", int32(len(shards)))
	})
	l.Logf("after the rolling update of a StatefulSet: %v", l.waitForBalance(shards...))
	if l.recorder.countVisits() == visits {
		l.Error("no shard processed an object during the rolling update")
	}
	if moved := l.recorder.countMoved(); moved > 0 {
		l.Errorf("%d of %d objects were processed by another shard, want none, because the shards kept their names", moved, len(before))
	}
	l.recorder.expectOwners(nil)
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
