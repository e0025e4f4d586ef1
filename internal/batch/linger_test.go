package batch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestABusyKeyLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		type flown struct {
			inputs int
			took   time.Duration
		}
		asked := make(chan flown, 10)
		d.Linger = func(inputs int, took time.Duration) time.Duration {
			asked <- flown{inputs, took}
			return 40 * time.Millisecond
		}
		one := d.call(t.Context(), "web", 1)
		first := d.flight() // at once: the key was idle
		time.Sleep(3 * time.Millisecond)
		first.land <- tenfold
		d.got("one, who need not linger", one, answer{Out: 10, After: 3 * time.Millisecond})
		if got, want := <-asked, (flown{1, 3 * time.Millisecond}); got != want {
			t.Errorf("Linger is asked about %+v, want %+v", got, want)
		}

		hasty, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		two, three := d.call(t.Context(), "web", 2), d.call(hasty, "web", 3)
		api := d.call(t.Context(), "api", 4)
		other := d.flight()
		if other.key != "api" {
			t.Errorf("a flight for %s has started while its key lingers", other.key)
		}
		time.Sleep(39 * time.Millisecond)
		d.noFlight()
		d.got("who leaves while the key lingers", three, answer{Err: context.DeadlineExceeded, After: 13 * time.Millisecond})
		time.Sleep(time.Millisecond)
		second := d.flight()
		d.carries(second, 2)

		second.land <- tenfold
		other.land <- tenfold
		d.got("two", two, answer{Out: 20, After: 43 * time.Millisecond})
		d.got("api", api, answer{Out: 40, After: 43 * time.Millisecond})
		d.Wait()
	})
}
