package sharding_test

import (
	"syscall"
	"testing"
	"time"
)

func TestFrozenShardWritesNothingAfterReassignment(t *testing.T) {
	t.Parallel()
	r := newRing(t, 4)
	r.createDeployments(10, "a")
	former := r.join("a", "--takes=500ms")
	r.setLeaseDuration(60)
	other := r.join("b")
	r.record.awaitWrites(former.identity, 0)
	<-time.After(200 * time.Millisecond) // in the middle of its work, whose result it would write as soon as it continues
	former.signal(syscall.SIGSTOP)
	renewed := r.lease("a").Spec.RenewTime
	<-time.After(time.Until(renewed.Add(8*time.Second + 100*time.Millisecond))) // twice the duration, as the sharder waits
	r.setHolder("a", "")
	given := r.record.now()
	for _, d := range r.deployments() {
		r.assign(&d, "b")
	}
	r.record.awaitWrites(other.identity, given)
	former.signal(syscall.SIGCONT)
	if code := former.awaitEnd(); code != 1 {
		t.Errorf("it ended with %d", code)
	}
	r.record.awaitWrites(other.identity, r.record.now())
	former.wantNoMoreWrites(given)
	if holder := r.holder("a"); holder != "" {
		t.Errorf("its Lease is held by %q again", holder)
	}
	former.wantOutput("the process must restart")
}
