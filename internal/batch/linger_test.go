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
		var inputs int
		var took time.Duration
		d.Linger = func(n int, t time.Duration) time.Duration {
			inputs, took = n, t
			return 40 * time.Millisecond
		}
		one := d.call(t.Context(), "web", 1)
		first := d.flight() // at once: the key was idle
		time.Sleep(3 * time.Millisecond)
		first.land <- tenfold
		d.got("one, who need not linger", one, answer{Out: 10, After: 3 * time.Millisecond})
		if inputs != 1 || took != 3*time.Millisecond {
			t.Errorf("Linger is asked about %d inputs in %v, want 1 in 3ms", inputs, took)
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
