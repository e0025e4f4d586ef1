package ownership

import (
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

func TestReleasedSlotIsNotWritten(t *testing.T) {
	seven, all := slot.Set{}.With(7), slot.All()
	claims := newClaims()
	claims.Add(all, 3, time.Now())
	if !claims.beginWork(7) || !claims.beginWork(8) {
		t.Fatal("beginWork() = false in a claimed slot, want true")
	}
	dropped := make(chan struct{})
	go func() {
		defer close(dropped)
		claims.Release(seven)
	}()
	for claims.isOpen(7) {
		time.Sleep(time.Millisecond) //nolint:forbidigo // wait until the other goroutine has begun
	}
	if claims.beginWork(7) {
		t.Error("beginWork() = true in a closed slot, want false")
	}
	select {
	case <-dropped:
		t.Fatal("release() returned while work is in progress, want it to wait")
	case <-time.After(50 * time.Millisecond):
	}
	if claims.claimOf(7).epoch != 3 {
		t.Error("the epoch changed during work in progress")
	}
	claims.endWork(7)
	<-dropped
	if has, _ := claims.Claimed(); has != all.Minus(seven) || claims.beginWork(7) || claims.claimOf(8).inProgress != 1 {
		t.Errorf("claimed slots %q", has)
	}
	claims.Add(seven, 5, time.Now())
	if !claims.beginWork(7) || claims.claimOf(7).epoch != 5 || claims.claimOf(8).epoch != 3 {
		t.Error("epochs after a new claim: want a new one for that slot alone")
	}
}
