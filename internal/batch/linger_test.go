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
			key    string
			inputs int
			took   time.Duration
		}
		asked := make(chan flown, 10)
		d.Linger = func(key string, inputs int, took time.Duration) (least, most time.Duration) {
			asked <- flown{key, inputs, took}
			return 0, 40 * time.Millisecond
		}
		one := d.call(t.Context(), "web", 1)
		first := d.flight() // at once: the key was idle
		time.Sleep(3 * time.Millisecond)
		first.land <- tenfold
		d.got("one, who need not linger", one, answer{Out: 10, After: 3 * time.Millisecond})
		if got, want := <-asked, (flown{"web", 1, 3 * time.Millisecond}); got != want {
			t.Errorf("Linger is asked about %+v, want %+v", got, want)
		}

		// An eighth is 5 ms: somebody boards in each of the first five, and one leaves.
		hasty, cancel := context.WithTimeout(t.Context(), 9*time.Millisecond)
		defer cancel()
		two, three := d.call(t.Context(), "web", 2), d.call(hasty, "web", 3)
		api := d.call(t.Context(), "api", 4)
		other := d.flight()
		if other.key != "api" {
			t.Errorf("a flight for %s has started while its key lingers", other.key)
		}
		for in := range 4 {
			time.Sleep(4 * time.Millisecond)
			d.call(t.Context(), "web", 10+in)
			d.call(t.Context(), "web", 20+in)
			time.Sleep(time.Millisecond)
			d.noFlight()
		}
		d.got("who leaves while the key lingers", three, answer{Err: context.DeadlineExceeded, After: 12 * time.Millisecond})
		time.Sleep(4 * time.Millisecond)
		d.noFlight()
		time.Sleep(time.Millisecond)
		second := d.flight()
		d.carries(second, 2, 10, 20, 11, 21, 12, 22, 13, 23)

		second.land <- tenfold
		other.land <- tenfold
		d.got("two", two, answer{Out: 20, After: 28 * time.Millisecond})
		d.got("api", api, answer{Out: 40, After: 28 * time.Millisecond})
		d.Wait()
	})
}

func TestAKeyLingersAtMostForTheWholeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.Linger = func(string, int, time.Duration) (least, most time.Duration) { return 0, 40 * time.Millisecond }
		d.call(t.Context(), "web", 1)
		d.flight().land <- tenfold
		for in := range 10 {
			d.call(t.Context(), "web", in)
			time.Sleep(4 * time.Millisecond)
		}
		synctest.Wait()
		second := d.flight()
		if got := len(second.inputs); got != 10 {
			t.Errorf("%d inputs, want all 10 that came in 40 ms", got)
		}
		second.land <- tenfold
		d.Wait()
	})
}

func TestAKeyLingersAtLeastForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.Linger = func(string, int, time.Duration) (least, most time.Duration) {
			return 30 * time.Millisecond, 30 * time.Millisecond
		}
		d.call(t.Context(), "web", 1)
		d.flight().land <- tenfold
		two := d.call(t.Context(), "web", 2)
		time.Sleep(29 * time.Millisecond)
		d.noFlight()
		time.Sleep(time.Millisecond)
		d.flight().land <- tenfold
		d.got("two", two, answer{Out: 20, After: 30 * time.Millisecond})
		d.Wait()
	})
}
