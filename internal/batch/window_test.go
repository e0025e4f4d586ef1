package batch_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestBusyKeyWaitsUntilItsQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newHarness(t)
		type previous struct {
			key   string
			depth int
			took  time.Duration
		}
		asked := make(chan previous, 10)
		d.Window = func(key string, depth int, took time.Duration) (maxWait time.Duration, fullAt int) {
			asked <- previous{key, depth, took}
			return 40 * time.Millisecond, depth
		}
		one := d.call(t.Context(), "web", 1)
		first := d.waitForBatch() // at once, because the key was idle
		time.Sleep(3 * time.Millisecond)
		hasty, cancel := context.WithTimeout(t.Context(), 9*time.Millisecond)
		defer cancel()
		two, three := d.call(t.Context(), "web", 2), d.call(hasty, "web", 3)
		first.complete <- timesTen
		d.checkResult("one, which needs no batch window", one, callResult{Out: 10, After: 3 * time.Millisecond})
		if got, want := <-asked, (previous{"web", 3, 3 * time.Millisecond}); got != want {
			t.Errorf("batch window requested for %+v, want %+v (one executed, two queued)", got, want)
		}
		api := d.call(t.Context(), "api", 4)
		other := d.waitForBatch()
		if other.key != "api" {
			t.Errorf("batch for key %s started, want api (web is in its batch window)", other.key)
		}
		time.Sleep(10 * time.Millisecond)
		d.checkResult("a caller that leaves during the batch window", three, callResult{Err: context.DeadlineExceeded, After: 12 * time.Millisecond})
		d.call(t.Context(), "web", 5)
		time.Sleep(10 * time.Millisecond)
		d.checkNoBatch() // one caller has left, so there are still two
		d.call(t.Context(), "web", 6)
		second := d.waitForBatch()
		d.checkInputs(second, 2, 5, 6)

		second.complete <- timesTen
		other.complete <- timesTen
		d.checkResult("two", two, callResult{Out: 20, After: 23 * time.Millisecond})
		d.checkResult("api", api, callResult{Out: 40, After: 23 * time.Millisecond})
		d.Wait()
	})
}

func TestBatchWindowHasAMaximum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newHarness(t)
		d.Window = func(string, int, time.Duration) (most time.Duration, enough int) {
			return 40 * time.Millisecond, math.MaxInt
		}
		d.call(t.Context(), "web", 1)
		d.waitForBatch().complete <- timesTen
		for in := range 10 {
			d.checkNoBatch()
			d.call(t.Context(), "web", in)
			time.Sleep(4 * time.Millisecond)
		}
		second := d.waitForBatch()
		if got := len(second.inputs); got != 10 {
			t.Errorf("batch has %d inputs, want all 10 of the 40 ms window", got)
		}
		second.complete <- timesTen
		d.Wait()
	})
}

func TestFullBatchStartsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, began := newHarness(t), time.Now()
		d.Window = func(string, int, time.Duration) (most time.Duration, enough int) { return time.Hour, 2 }
		d.call(t.Context(), "web", 1)
		first := d.waitForBatch()
		two := d.call(t.Context(), "web", 2)
		d.call(t.Context(), "web", 3)
		first.complete <- timesTen
		d.waitForBatch().complete <- timesTen
		d.checkResult("two", two, callResult{Out: 20})
		if waited := time.Since(began); waited != 0 {
			t.Errorf("a full batch waited %s for its window, want 0", waited)
		}
		d.Wait()
	})
}

// Callers that do not return reduce the queue depth with each batch.
func TestQueueDepthDecreases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newHarness(t)
		var depth atomic.Int64
		d.Window = func(_ string, seen int, _ time.Duration) (most time.Duration, enough int) {
			depth.Store(int64(seen))
			return 10 * time.Millisecond, seen
		}
		d.call(t.Context(), "web", 0)
		first := d.waitForBatch()
		for in := range 63 {
			d.call(t.Context(), "web", in)
		}
		first.complete <- timesTen
		time.Sleep(10 * time.Millisecond) // one caller does not return
		second := d.waitForBatch()
		if got := depth.Load(); got != 64 {
			t.Errorf("queue depth = %d, want 64", got)
		}
		second.complete <- timesTen
		synctest.Wait()
		for batches := 0; depth.Load() > 1; batches++ {
			if batches == 30 {
				t.Fatalf("after %d batches of one caller: queue depth = %d, want at most 1", batches, depth.Load())
			}
			d.call(t.Context(), "web", batches)
			time.Sleep(10 * time.Millisecond)
			d.waitForBatch().complete <- timesTen
			synctest.Wait()
		}
		d.Wait()
	})
}

func TestBeforeStartRunsBeforeTheBatchStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newHarness(t)
		d.BeforeStart = func(key string) {
			if key != "web" {
				t.Errorf("called before the batch of key %q, want web", key)
			}
			time.Sleep(time.Millisecond)
		}
		one, two := d.call(t.Context(), "web", 1), d.call(t.Context(), "web", 2)
		time.Sleep(time.Millisecond)
		f := d.waitForBatch()
		d.checkInputs(f, 1, 2) // both, although the key was idle
		f.complete <- timesTen
		d.checkResult("one", one, callResult{Out: 10, After: time.Millisecond})
		d.checkResult("two", two, callResult{Out: 20, After: time.Millisecond})
		d.Wait()
	})
}
