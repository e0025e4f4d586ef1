package ownership

import (
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

func TestReleasedSlotIsNotWritten(t *testing.T) {
	seven, all := slot.Set{}.With(7), slot.All()
	claims := NewClaims[int]()
	claims.Add(all, 3)
	if !claims.BeginWork(7) || !claims.BeginWork(8) {
		t.Fatal("BeginWork() = false in a claimed slot, want true")
	}
	dropped := make(chan struct{})
	go func() {
		defer close(dropped)
		claims.Release(seven)
	}()
	for claims.Open().Has(7) {
		time.Sleep(time.Millisecond) //nolint:forbidigo // wait until the other goroutine has begun
	}
	if claims.BeginWork(7) {
		t.Error("BeginWork() = true in a closed slot, want false")
	}
	select {
	case <-dropped:
		t.Fatal("Release() returned while work is in progress, want it to wait")
	case <-time.After(50 * time.Millisecond):
	}
	if claims.ValueOf(7) != 3 {
		t.Error("the value changed during work in progress")
	}
	claims.EndWork(7)
	<-dropped
	if has, _ := claims.Claimed(); has != all.Minus(seven) || claims.BeginWork(7) || claims.inProgress[8] != 1 {
		t.Errorf("claimed slots %q", has)
	}
	claims.Add(seven, 5)
	if !claims.BeginWork(7) || claims.ValueOf(7) != 5 || claims.ValueOf(8) != 3 {
		t.Error("values after a new claim: want a new one for that slot alone")
	}
}
