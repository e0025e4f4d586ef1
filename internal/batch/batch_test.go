package batch_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/internal/batch"
)

var errChanged = errors.New("caller canceled the request")

// callResult is what a call of Do returned, and when.
type callResult struct {
	Out   int
	Err   error
	After time.Duration
}

// harness is a Batch whose batches run until the test completes them. All its tests run in a synctest bubble, and so can determine that
// a call is blocked.
type harness struct {
	t *testing.T
	*batch.Batcher[string, int, int]
	started chan *runningBatch
	opened  time.Time
}

// runningBatch is a running batch.
type runningBatch struct {
	ctx      context.Context
	key      string
	inputs   []int
	complete chan func(inputs []int) ([]int, error)
}

func newHarness(t *testing.T) *harness {
	d := &harness{t: t, started: make(chan *runningBatch, 100), opened: time.Now()}
	d.Batcher = batch.New(func(ctx context.Context, key string, inputs []int) ([]int, error) {
		f := &runningBatch{ctx: ctx, key: key, inputs: inputs, complete: make(chan func([]int) ([]int, error))}
		d.started <- f
		return (<-f.complete)(inputs)
	})
	return d
}

// call calls Do and waits until the call is queued.
func (d *harness) call(ctx context.Context, key string, in int) <-chan callResult {
	answers := make(chan callResult, 1)
	go func() {
		out, err := d.Do(ctx, key, in)
		answers <- callResult{Out: out, Err: err, After: time.Since(d.opened)}
	}()
	synctest.Wait()
	return answers
}

func (d *harness) waitForBatch() *runningBatch {
	d.t.Helper()
	synctest.Wait()
	select {
	case f := <-d.started:
		return f
	default:
		d.t.Fatal("no batch started")
		return nil
	}
}

func (d *harness) checkNoBatch() {
	d.t.Helper()
	synctest.Wait()
	select {
	case f := <-d.started:
		d.t.Fatalf("batch started for key %s with inputs %v, want none", f.key, f.inputs)
	default:
	}
}

func (d *harness) checkResult(caller string, answers <-chan callResult, want callResult) {
	d.t.Helper()
	synctest.Wait()
	select {
	case got := <-answers:
		if got.Out != want.Out || !errors.Is(got.Err, want.Err) || got.After != want.After {
			d.t.Errorf("%s got %+v, want %+v", caller, got, want)
		}
	default:
		d.t.Errorf("%s got no answer yet, want %+v", caller, want)
	}
}

func (d *harness) checkWaiting(caller string, answers <-chan callResult) {
	d.t.Helper()
	synctest.Wait()
	select {
	case got := <-answers:
		d.t.Errorf("%s got %+v, want it to wait", caller, got)
	default:
	}
}

func (d *harness) checkCallers(want int) {
	d.t.Helper()
	synctest.Wait()
	if got := d.Callers(); got != want {
		d.t.Errorf("Callers() = %d, want %d", got, want)
	}
}

func (d *harness) checkInputs(f *runningBatch, want ...int) {
	d.t.Helper()
	if diff := cmp.Diff(want, f.inputs); diff != "" {
		d.t.Errorf("inputs of the batch (-want +got):\n%s", diff)
	}
}

func (d *harness) checkContextAlive(f *runningBatch) {
	d.t.Helper()
	synctest.Wait()
	if err := context.Cause(f.ctx); err != nil {
		d.t.Errorf("batch context ended: %v", err)
	}
}

func timesTen(inputs []int) ([]int, error) {
	outputs := make([]int, len(inputs))
	for i, in := range inputs {
		outputs[i] = 10 * in
	}
	return outputs, nil
}

func TestCallsDuringABatchJoinTheNextBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ctx := newHarness(t), t.Context()
		one := d.call(ctx, "web", 1)
		first := d.waitForBatch()
		two, three := d.call(ctx, "web", 2), d.call(ctx, "web", 3)
		d.checkNoBatch()
		d.checkInputs(first, 1)
		d.checkCallers(3)

		first.complete <- timesTen
		d.checkResult("one", one, callResult{Out: 10})
		second := d.waitForBatch()
		d.checkInputs(second, 2, 3)
		d.checkWaiting("two", two)
		d.checkCallers(2)

		second.complete <- timesTen
		d.checkResult("two", two, callResult{Out: 20})
		d.checkResult("three", three, callResult{Out: 30})
		d.checkNoBatch()
		d.checkCallers(0)
	})
}

func TestKeysDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ctx := newHarness(t), t.Context()
		web := d.call(ctx, "web", 1)
		first := d.waitForBatch()
		api := d.call(ctx, "api", 2)
		second := d.waitForBatch()
		if second.key != "api" {
			t.Errorf("second batch is for key %s, want api", second.key)
		}
		second.complete <- timesTen
		d.checkResult("api", api, callResult{Out: 20})
		d.checkWaiting("web", web)
		first.complete <- timesTen
		d.checkResult("web", web, callResult{Out: 10})
	})
}

func TestDoReturnsWhenTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newHarness(t)
		hasty, leave := context.WithCancelCause(t.Context())
		timed, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()

		one := d.call(hasty, "web", 1)
		first := d.waitForBatch()
		two, three, four := d.call(t.Context(), "web", 2), d.call(timed, "web", 3), d.call(t.Context(), "web", 4)

		leave(errChanged)
		d.checkResult("the only waiter of a running batch", one, callResult{Err: errChanged})
		if got := context.Cause(first.ctx); !errors.Is(got, errChanged) {
			t.Errorf("cause of the batch context without waiters = %v, want %v", got, errChanged)
		}
		d.checkNoBatch() // an abandoned batch still runs
		d.checkCallers(3)

		time.Sleep(2 * time.Minute)
		d.checkResult("a caller that leaves before its batch starts", three, callResult{Err: context.DeadlineExceeded, After: time.Minute})
		first.complete <- timesTen
		second := d.waitForBatch()
		d.checkInputs(second, 2, 4)
		d.checkCallers(2)
		second.complete <- timesTen
		d.checkResult("two", two, callResult{Out: 20, After: 2 * time.Minute})
		d.checkResult("four, whose index decreased", four, callResult{Out: 40, After: 2 * time.Minute})
	})
}

func TestBatchContextEndsWithTheLastWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newHarness(t)
		blocker := d.call(t.Context(), "web", 0)
		first := d.waitForBatch()
		early, leaveEarly := context.WithCancel(t.Context())
		late, leaveLate := context.WithCancelCause(t.Context())
		one, two := d.call(early, "web", 1), d.call(late, "web", 2)
		first.complete <- timesTen
		d.checkResult("blocker", blocker, callResult{})

		second := d.waitForBatch()
		leaveEarly()
		d.checkResult("one", one, callResult{Err: context.Canceled})
		d.checkContextAlive(second)
		leaveLate(errChanged)
		d.checkResult("two", two, callResult{Err: errChanged})
		if got := context.Cause(second.ctx); !errors.Is(got, errChanged) {
			t.Errorf("cause = %v, want the cause of the last caller, %v", got, errChanged)
		}
		second.complete <- timesTen
	})
}

func TestBatchWithoutWaitersDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newHarness(t)
		one := d.call(t.Context(), "web", 1)
		first := d.waitForBatch()
		ctx, leave := context.WithCancel(t.Context())
		two := d.call(ctx, "web", 2)
		leave()
		d.checkResult("two", two, callResult{Err: context.Canceled})
		first.complete <- timesTen
		d.checkResult("one", one, callResult{Out: 10})
		d.checkNoBatch()
		d.checkResult("a caller whose context has ended", d.call(ctx, "web", 3), callResult{Err: context.Canceled})
		d.checkNoBatch()
	})
}

func TestBatchDeadlineIsTheLatestOfItsWaiters(t *testing.T) {
	in := func(minutes int) time.Duration { return time.Duration(minutes) * time.Minute }
	for claim, tc := range map[string]struct {
		callers []time.Duration // 0 means no deadline
		want    time.Duration
	}{
		"one caller's":                             {[]time.Duration{in(5)}, in(5)},
		"the latest at any position":               {[]time.Duration{in(5), in(9), in(7)}, in(9)},
		"none when a caller has none":              {[]time.Duration{in(5), 0, in(7)}, 0},
		"a caller that left before does not count": {[]time.Duration{in(1), in(5)}, in(5)},
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newHarness(t)
				opened := time.Now()
				d.call(t.Context(), "web", 0)
				first := d.waitForBatch()
				if deadline, ok := first.ctx.Deadline(); ok {
					t.Errorf("deadline = %v, want none", deadline)
				}
				for i, timeout := range tc.callers {
					ctx := t.Context()
					if timeout > 0 {
						timed, cancel := context.WithTimeout(ctx, timeout)
						defer cancel()
						ctx = timed
					}
					d.call(ctx, "web", i)
				}
				time.Sleep(in(2))
				first.complete <- timesTen
				second := d.waitForBatch()
				deadline, ok := second.ctx.Deadline()
				if ok != (tc.want > 0) || ok && deadline.Sub(opened) != tc.want {
					t.Errorf("deadline = %v (%v), want %v", deadline.Sub(opened), ok, tc.want)
				}
				// A context derived from it ends when the last caller leaves, and leaks no goroutine.
				derived, cancel := context.WithTimeout(second.ctx, time.Hour)
				defer cancel()
				if tc.want > 0 {
					<-derived.Done()
					if got := time.Since(opened); got != tc.want {
						t.Errorf("batch context ended after %v, want %v", got, tc.want)
					}
				}
				second.complete <- timesTen
			})
		})
	}
}

func TestAllWaitersGetTheBatchError(t *testing.T) {
	errBroken := errors.New("core cluster is unreachable")
	for claim, tc := range map[string]struct {
		execute func([]int) ([]int, error)
		want    []string // part of the error message
		is      error
	}{
		"an error": {
			execute: func([]int) ([]int, error) { return nil, errBroken }, is: errBroken,
			want: []string{"core cluster is unreachable"},
		},
		"an error with outputs": {
			execute: func(in []int) ([]int, error) { return in, errBroken }, is: errBroken,
			want: []string{"core cluster is unreachable"},
		},
		"too few outputs":  {execute: func(in []int) ([]int, error) { return in[1:], nil }, want: []string{"1 outputs for 2 inputs"}},
		"too many outputs": {execute: func(in []int) ([]int, error) { return append(in, 1), nil }, want: []string{"3 outputs for 2 inputs"}},
		"a panic, with its stack": {
			execute: func(in []int) ([]int, error) { return in[:0], explode(in) },
			want:    []string{"panicked: core is unreachable", "batch_test.explode"},
		},
		"an exit of the goroutine": {
			execute: func([]int) ([]int, error) { runtime.Goexit(); return nil, nil }, want: []string{"ended its goroutine"},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, ctx := newHarness(t), t.Context()
				d.call(ctx, "web", 0)
				first := d.waitForBatch()
				callers := []<-chan callResult{d.call(ctx, "web", 1), d.call(ctx, "web", 2)}
				first.complete <- timesTen
				second := d.waitForBatch()
				next := d.call(ctx, "web", 3)
				second.complete <- tc.execute
				synctest.Wait()
				for i, caller := range callers {
					got := <-caller
					if got.Err == nil || got.Out != 0 || tc.is != nil && !errors.Is(got.Err, tc.is) {
						t.Fatalf("caller %d got %+v, want an error %v", i, got, tc.is)
					}
					for _, want := range tc.want {
						if !strings.Contains(got.Err.Error(), want) {
							t.Errorf("caller %d got error %q, want it to contain %q", i, got.Err, want)
						}
					}
				}
				d.waitForBatch().complete <- timesTen
				d.checkResult("the caller of the next batch", next, callResult{Out: 30})
				d.Wait()
			})
		})
	}
}

func explode([]int) error { panic("core is unreachable") }

func TestInputsOfDoAllShareABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newHarness(t)
		d.call(t.Context(), "web", 1)
		first := d.waitForBatch()
		hasty, cancel := context.WithCancelCause(t.Context())
		all := func(ctx context.Context, ins ...int) <-chan []int {
			got := make(chan []int, 1)
			go func() {
				outs, err := d.DoAll(ctx, "web", ins)
				if err != nil {
					outs = nil
				}
				got <- outs
			}()
			synctest.Wait()
			return got
		}
		two, canceled, five := all(t.Context(), 2, 3), all(hasty, 4, 4), all(t.Context(), 5)
		cancel(errChanged)
		if got := <-canceled; got != nil {
			t.Errorf("the canceled call returned %v", got)
		}
		first.complete <- timesTen
		second := d.waitForBatch()
		d.checkInputs(second, 2, 3, 5)
		second.complete <- timesTen
		if diff := cmp.Diff([][]int{{20, 30}, {50}}, [][]int{<-two, <-five}); diff != "" {
			t.Errorf("outputs (-want +got):\n%s", diff)
		}
		if got := <-all(t.Context()); len(got) != 0 {
			t.Errorf("DoAll() without inputs = %v, want none", got)
		}
		d.Wait()
	})
}
