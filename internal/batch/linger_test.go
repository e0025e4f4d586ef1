package batch_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestABusyKeyLingersUntilItsCrowdIsAboard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		type flown struct {
			key   string
			crowd int
			took  time.Duration
		}
		asked := make(chan flown, 10)
		d.Linger = func(key string, crowd int, took time.Duration) (most time.Duration, enough int) {
			asked <- flown{key, crowd, took}
			return 40 * time.Millisecond, crowd
		}
		one := d.call(t.Context(), "web", 1)
		first := d.flight() // at once, because the key was idle
		time.Sleep(3 * time.Millisecond)
		hasty, cancel := context.WithTimeout(t.Context(), 9*time.Millisecond)
		defer cancel()
		two, three := d.call(t.Context(), "web", 2), d.call(hasty, "web", 3)
		first.land <- tenfold
		d.got("one, who need not linger", one, answer{Out: 10, After: 3 * time.Millisecond})
		if got, want := <-asked, (flown{"web", 3, 3 * time.Millisecond}); got != want {
			t.Errorf("Linger is asked about %+v, want %+v: one flew and two were behind", got, want)
		}
		api := d.call(t.Context(), "api", 4)
		other := d.flight()
		if other.key != "api" {
			t.Errorf("a flight for %s has started while its key lingers", other.key)
		}
		time.Sleep(10 * time.Millisecond)
		d.got("who leaves while the key lingers", three, answer{Err: context.DeadlineExceeded, After: 12 * time.Millisecond})
		d.call(t.Context(), "web", 5)
		time.Sleep(10 * time.Millisecond)
		d.noFlight() // one caller has left, so there are still two
		d.call(t.Context(), "web", 6)
		second := d.flight()
		d.carries(second, 2, 5, 6)

		second.land <- tenfold
		other.land <- tenfold
		d.got("two", two, answer{Out: 20, After: 23 * time.Millisecond})
		d.got("api", api, answer{Out: 40, After: 23 * time.Millisecond})
		d.Wait()
	})
}

func TestAKeyLingersNoLongerThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.Linger = func(string, int, time.Duration) (most time.Duration, enough int) {
			return 40 * time.Millisecond, math.MaxInt
		}
		d.call(t.Context(), "web", 1)
		d.flight().land <- tenfold
		for in := range 10 {
			d.noFlight()
			d.call(t.Context(), "web", in)
			time.Sleep(4 * time.Millisecond)
		}
		second := d.flight()
		if got := len(second.inputs); got != 10 {
			t.Errorf("%d inputs, want all 10 that came in 40 ms", got)
		}
		second.land <- tenfold
		d.Wait()
	})
}

func TestAFullFlightStartsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.Linger = func(string, int, time.Duration) (most time.Duration, enough int) { return time.Hour, 2 }
		d.call(t.Context(), "web", 1)
		first := d.flight()
		two := d.call(t.Context(), "web", 2)
		d.call(t.Context(), "web", 3)
		first.land <- tenfold
		d.flight().land <- tenfold
		d.got("two", two, answer{Out: 20})
		closed := time.Now()
		d.Close()
		d.Wait()
		if waited := time.Since(closed); waited != 0 {
			t.Errorf("a Batch that is closed lingers for %s", waited)
		}
	})
}

// Callers that do not return reduce the queue depth with each batch.
func TestACrowdThatLeavesIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		var crowd atomic.Int64
		d.Linger = func(_ string, seen int, _ time.Duration) (most time.Duration, enough int) {
			crowd.Store(int64(seen))
			return 10 * time.Millisecond, seen
		}
		d.call(t.Context(), "web", 0)
		first := d.flight()
		for in := range 63 {
			d.call(t.Context(), "web", in)
		}
		first.land <- tenfold
		time.Sleep(10 * time.Millisecond) // one caller does not return
		second := d.flight()
		if got := crowd.Load(); got != 64 {
			t.Errorf("a crowd of %d, want 64", got)
		}
		second.land <- tenfold
		synctest.Wait()
		for flights := 0; crowd.Load() > 1; flights++ {
			if flights == 30 {
				t.Fatalf("after %d flights of one caller a crowd of %d is waited for", flights, crowd.Load())
			}
			d.call(t.Context(), "web", flights)
			time.Sleep(10 * time.Millisecond)
			d.flight().land <- tenfold
			synctest.Wait()
		}
		d.Wait()
	})
}

func TestAFlightTakesOffWhenBoardingIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.Boarding = func(key string) {
			if key != "web" {
				t.Errorf("boarding of %q", key)
			}
			time.Sleep(time.Millisecond)
		}
		one, two := d.call(t.Context(), "web", 1), d.call(t.Context(), "web", 2)
		time.Sleep(time.Millisecond)
		f := d.flight()
		d.carries(f, 1, 2) // both, although the key was idle
		f.land <- tenfold
		d.got("one", one, answer{Out: 10, After: time.Millisecond})
		d.got("two", two, answer{Out: 20, After: time.Millisecond})
		d.Wait()
	})
}
