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
	"go.uber.org/goleak"

	"github.com/breakwater-k8s/breakwater/internal/batch"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

var errChanged = errors.New("caller changed its mind")

// answer is what a call of Do returned, and when.
type answer struct {
	Out   int
	Err   error
	After time.Duration
}

// desk is a Batch whose batches run until the test completes them. All its tests run in a synctest bubble, and so can determine that
// a call is blocked.
type desk struct {
	t *testing.T
	*batch.Batch[string, int, int]
	started chan *takeoff
	opened  time.Time
}

// takeoff is a running batch.
type takeoff struct {
	ctx    context.Context
	key    string
	inputs []int
	land   chan func(inputs []int) ([]int, error)
}

func open(t *testing.T) *desk {
	d := &desk{t: t, started: make(chan *takeoff, 100), opened: time.Now()}
	d.Batch = batch.New(func(ctx context.Context, key string, inputs []int) ([]int, error) {
		f := &takeoff{ctx: ctx, key: key, inputs: inputs, land: make(chan func([]int) ([]int, error))}
		d.started <- f
		return (<-f.land)(inputs)
	})
	return d
}

// call calls Do and waits until the call is queued.
func (d *desk) call(ctx context.Context, key string, in int) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		out, err := d.Do(ctx, key, in)
		answers <- answer{Out: out, Err: err, After: time.Since(d.opened)}
	}()
	synctest.Wait()
	return answers
}

func (d *desk) flight() *takeoff {
	d.t.Helper()
	synctest.Wait()
	select {
	case f := <-d.started:
		return f
	default:
		d.t.Fatal("no flight has started")
		return nil
	}
}

func (d *desk) noFlight() {
	d.t.Helper()
	synctest.Wait()
	select {
	case f := <-d.started:
		d.t.Fatalf("a flight has started for %s with %v", f.key, f.inputs)
	default:
	}
}

func (d *desk) got(who string, answers <-chan answer, want answer) {
	d.t.Helper()
	synctest.Wait()
	select {
	case got := <-answers:
		if got.Out != want.Out || !errors.Is(got.Err, want.Err) || got.After != want.After {
			d.t.Errorf("%s got %+v, want %+v", who, got, want)
		}
	default:
		d.t.Errorf("%s got no answer yet, want %+v", who, want)
	}
}

func (d *desk) waits(who string, answers <-chan answer) {
	d.t.Helper()
	synctest.Wait()
	select {
	case got := <-answers:
		d.t.Errorf("%s got %+v, and should still wait", who, got)
	default:
	}
}

func (d *desk) callers(want int) {
	d.t.Helper()
	synctest.Wait()
	if got := d.Callers(); got != want {
		d.t.Errorf("%d callers wait, want %d", got, want)
	}
}

func (d *desk) carries(f *takeoff, want ...int) {
	d.t.Helper()
	if diff := cmp.Diff(want, f.inputs); diff != "" {
		d.t.Errorf("inputs of the flight (-want +got):\n%s", diff)
	}
}

func (d *desk) alive(f *takeoff) {
	d.t.Helper()
	synctest.Wait()
	if err := context.Cause(f.ctx); err != nil {
		d.t.Errorf("the flight's context has ended: %v", err)
	}
}

func tenfold(inputs []int) ([]int, error) {
	outputs := make([]int, len(inputs))
	for i, in := range inputs {
		outputs[i] = 10 * in
	}
	return outputs, nil
}

func TestWhatArrivesDuringAFlightJoinsTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ctx := open(t), t.Context()
		one := d.call(ctx, "web", 1)
		first := d.flight()
		two, three := d.call(ctx, "web", 2), d.call(ctx, "web", 3)
		d.noFlight()
		d.carries(first, 1)
		d.callers(3)

		first.land <- tenfold
		d.got("one", one, answer{Out: 10})
		second := d.flight()
		d.carries(second, 2, 3)
		d.waits("two", two)
		d.callers(2)

		second.land <- tenfold
		d.got("two", two, answer{Out: 20})
		d.got("three", three, answer{Out: 30})
		d.noFlight()
		d.callers(0)
	})
}

func TestKeysDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ctx := open(t), t.Context()
		web := d.call(ctx, "web", 1)
		first := d.flight()
		api := d.call(ctx, "api", 2)
		second := d.flight()
		if second.key != "api" {
			t.Errorf("the second flight is for %s", second.key)
		}
		second.land <- tenfold
		d.got("api", api, answer{Out: 20})
		d.waits("web", web)
		first.land <- tenfold
		d.got("web", web, answer{Out: 10})
	})
}

func TestACallerLeavesWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		hasty, leave := context.WithCancelCause(t.Context())
		timed, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()

		one := d.call(hasty, "web", 1)
		first := d.flight()
		two, three, four := d.call(t.Context(), "web", 2), d.call(timed, "web", 3), d.call(t.Context(), "web", 4)

		leave(errChanged)
		d.got("who leaves the only seat in flight", one, answer{Err: errChanged})
		if got := context.Cause(first.ctx); !errors.Is(got, errChanged) {
			t.Errorf("the context of a flight that nobody waits for has cause %v, want %v", got, errChanged)
		}
		d.noFlight() // an abandoned batch still runs
		d.callers(3)

		time.Sleep(2 * time.Minute)
		d.got("who leaves before the flight", three, answer{Err: context.DeadlineExceeded, After: time.Minute})
		first.land <- tenfold
		second := d.flight()
		d.carries(second, 2, 4)
		d.callers(2)
		second.land <- tenfold
		d.got("two", two, answer{Out: 20, After: 2 * time.Minute})
		d.got("four, whose seat moved up", four, answer{Out: 40, After: 2 * time.Minute})
	})
}

func TestAFlightEndsWithItsLastCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		blocker := d.call(t.Context(), "web", 0)
		first := d.flight()
		early, leaveEarly := context.WithCancel(t.Context())
		late, leaveLate := context.WithCancelCause(t.Context())
		one, two := d.call(early, "web", 1), d.call(late, "web", 2)
		first.land <- tenfold
		d.got("blocker", blocker, answer{})

		second := d.flight()
		leaveEarly()
		d.got("one", one, answer{Err: context.Canceled})
		d.alive(second)
		leaveLate(errChanged)
		d.got("two", two, answer{Err: errChanged})
		if got := context.Cause(second.ctx); !errors.Is(got, errChanged) {
			t.Errorf("cause %v, want the last caller's, %v", got, errChanged)
		}
		second.land <- tenfold
	})
}

func TestNobodyFliesWhenAllHaveLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		one := d.call(t.Context(), "web", 1)
		first := d.flight()
		ctx, leave := context.WithCancel(t.Context())
		two := d.call(ctx, "web", 2)
		leave()
		d.got("two", two, answer{Err: context.Canceled})
		first.land <- tenfold
		d.got("one", one, answer{Out: 10})
		d.noFlight()
		d.got("who comes with an ended context", d.call(ctx, "web", 3), answer{Err: context.Canceled})
		d.noFlight()
	})
}

func TestDeadlineIsTheLatestOfTheCallers(t *testing.T) {
	in := func(minutes int) time.Duration { return time.Duration(minutes) * time.Minute }
	for claim, tc := range map[string]struct {
		callers []time.Duration // 0 means no deadline
		want    time.Duration
	}{
		"one caller's":                            {[]time.Duration{in(5)}, in(5)},
		"the latest, wherever it stands":          {[]time.Duration{in(5), in(9), in(7)}, in(9)},
		"none when a caller has none":             {[]time.Duration{in(5), 0, in(7)}, 0},
		"a caller who left before does not count": {[]time.Duration{in(1), in(5)}, in(5)},
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t)
				opened := time.Now()
				d.call(t.Context(), "web", 0)
				first := d.flight()
				if deadline, ok := first.ctx.Deadline(); ok {
					t.Errorf("deadline %v, and no caller has one", deadline)
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
				first.land <- tenfold
				second := d.flight()
				deadline, ok := second.ctx.Deadline()
				if ok != (tc.want > 0) || ok && deadline.Sub(opened) != tc.want {
					t.Errorf("deadline %v (%v), want %v", deadline.Sub(opened), ok, tc.want)
				}
				// A context derived from it ends when the last caller leaves, and leaks no goroutine.
				derived, cancel := context.WithTimeout(second.ctx, time.Hour)
				defer cancel()
				if tc.want > 0 {
					<-derived.Done()
					if got := time.Since(opened); got != tc.want {
						t.Errorf("the context ended after %v, want %v", got, tc.want)
					}
				}
				second.land <- tenfold
			})
		})
	}
}

func TestAFailureIsEverybodys(t *testing.T) {
	errBroken := errors.New("core cluster is gone")
	for claim, tc := range map[string]struct {
		land func([]int) ([]int, error)
		want []string // part of the error message
		is   error
	}{
		"an error": {
			land: func([]int) ([]int, error) { return nil, errBroken }, is: errBroken,
			want: []string{"core cluster is gone"},
		},
		"an error beside outputs": {
			land: func(in []int) ([]int, error) { return in, errBroken }, is: errBroken,
			want: []string{"core cluster is gone"},
		},
		"too few outputs":  {land: func(in []int) ([]int, error) { return in[1:], nil }, want: []string{"1 outputs for 2 inputs"}},
		"too many outputs": {land: func(in []int) ([]int, error) { return append(in, 1), nil }, want: []string{"3 outputs for 2 inputs"}},
		"a panic, with its stack": {
			land: func(in []int) ([]int, error) { return in[:0], explode(in) },
			want: []string{"panicked: the core is gone", "batch_test.explode"},
		},
		"an exit of the goroutine": {
			land: func([]int) ([]int, error) { runtime.Goexit(); return nil, nil }, want: []string{"ended its goroutine"},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, ctx := open(t), t.Context()
				d.call(ctx, "web", 0)
				first := d.flight()
				callers := []<-chan answer{d.call(ctx, "web", 1), d.call(ctx, "web", 2)}
				first.land <- tenfold
				second := d.flight()
				next := d.call(ctx, "web", 3)
				second.land <- tc.land
				synctest.Wait()
				for i, caller := range callers {
					got := <-caller
					if got.Err == nil || got.Out != 0 || tc.is != nil && !errors.Is(got.Err, tc.is) {
						t.Fatalf("caller %d got %+v, want an error %v", i, got, tc.is)
					}
					for _, want := range tc.want {
						if !strings.Contains(got.Err.Error(), want) {
							t.Errorf("caller %d got %q, which does not mention %q", i, got.Err, want)
						}
					}
				}
				d.flight().land <- tenfold
				d.got("the caller of the next flight", next, answer{Out: 30})
				d.Wait()
			})
		})
	}
}

func explode([]int) error { panic("the core is gone") }

func TestInputsThatComeTogetherFlyTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.call(t.Context(), "web", 1)
		first := d.flight()
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
		two, gone, five := all(t.Context(), 2, 3), all(hasty, 4, 4), all(t.Context(), 5)
		cancel(errChanged)
		if got := <-gone; got != nil {
			t.Errorf("who has left got %v", got)
		}
		first.land <- tenfold
		second := d.flight()
		d.carries(second, 2, 3, 5)
		second.land <- tenfold
		if diff := cmp.Diff([][]int{{20, 30}, {50}}, [][]int{<-two, <-five}); diff != "" {
			t.Errorf("outputs (-want +got):\n%s", diff)
		}
		if got := <-all(t.Context()); len(got) != 0 {
			t.Errorf("no inputs have the outputs %v", got)
		}
		d.Wait()
	})
}
