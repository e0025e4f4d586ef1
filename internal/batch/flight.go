package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"
)

var errExited = errors.New("batch: the executor ended its goroutine")

// flight is one run of the executor. Batch.mu guards it until it has landed; then it does not change.
type flight[In, Out any] struct {
	inputs []In
	// deadlines of the callers by seat; the zero time is none.
	deadlines []time.Time
	// left has the seats whose callers left before the start, in order. Their inputs are not executed.
	left []int
	// aboard is the number of callers who wait; none once it has landed.
	aboard int

	// ctx and cancel are nil before the start.
	ctx    context.Context
	cancel context.CancelCauseFunc

	landed  chan struct{}
	outputs []Out
	err     error
}

func newFlight[In, Out any]() *flight[In, Out] {
	return &flight[In, Out]{landed: make(chan struct{})}
}

// board takes the next seat.
func (f *flight[In, Out]) board(ctx context.Context, in In) {
	deadline, _ := ctx.Deadline()
	f.inputs = append(f.inputs, in)
	f.deadlines = append(f.deadlines, deadline)
	f.aboard++
}

// leave gives up a seat. When it was the last, nobody needs the flight: before the start it will not happen,
// after it its context ends.
func (f *flight[In, Out]) leave(seat int, cause error) {
	f.aboard--
	if f.ctx == nil {
		at, _ := slices.BinarySearch(f.left, seat)
		f.left = slices.Insert(f.left, at, seat)
		return
	}
	if f.aboard == 0 {
		f.cancel(cause)
	}
}

// start fixes who flies. It is false when all callers have left.
func (f *flight[In, Out]) start() bool {
	if f.aboard == 0 {
		return false
	}
	if len(f.left) > 0 {
		f.inputs, f.deadlines = without(f.inputs, f.left), without(f.deadlines, f.left)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	f.ctx, f.cancel = flightContext{Context: ctx, deadline: latest(f.deadlines)}, cancel
	return true
}

// land ends the flight and wakes its callers.
func (f *flight[In, Out]) land(outputs []Out, err error) {
	if err == nil && len(outputs) != len(f.inputs) {
		err = fmt.Errorf("batch: the executor returned %d outputs for %d inputs", len(outputs), len(f.inputs))
	}
	f.outputs, f.err, f.aboard = outputs, err, 0
	if f.cancel != nil {
		f.cancel(nil)
	}
	close(f.landed)
}

// outcome is what a caller gets who stayed until the flight landed.
func (f *flight[In, Out]) outcome(seat int) (Out, error) {
	if f.err != nil {
		var none Out
		return none, f.err
	}
	// Those who left before the start made the seats behind them move up.
	before, _ := slices.BinarySearch(f.left, seat)
	return f.outputs[seat-before], nil
}

// without removes the elements at the seats, which are in order.
func without[T any](all []T, seats []int) []T {
	kept := all[:0]
	for i, e := range all {
		if len(seats) > 0 && seats[0] == i {
			seats = seats[1:]
			continue
		}
		kept = append(kept, e)
	}
	clear(all[len(kept):]) // what nobody waits for need not be kept
	return kept
}

// latest is the last of the deadlines, or the zero time if any caller has none.
func latest(deadlines []time.Time) time.Time {
	var last time.Time
	for _, d := range deadlines {
		if d.IsZero() {
			return d
		}
		if d.After(last) {
			last = d
		}
	}
	return last
}

// flightContext tells the executor its deadline, for clients that pass it on. It needs no timer to keep it: a
// caller leaves when its own context ends, and with the last caller the flight's ends.
type flightContext struct {
	context.Context
	deadline time.Time
}

func (c flightContext) Deadline() (time.Time, bool) {
	return c.deadline, !c.deadline.IsZero()
}

func panicked(reason any) error {
	return fmt.Errorf("batch: the executor panicked: %v\n%s", reason, debug.Stack())
}
