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

// flight is one batch. Batch.mu guards it until it has completed. It does not change after that.
type flight[In, Out any] struct {
	inputs []In
	// deadlines are those of the callers, by index. The zero time means no deadline.
	deadlines []time.Time
	// left has the sorted indexes whose callers left before the start. Their inputs are not executed.
	left []int
	// aboard is the number of inputs whose callers wait. It is 0 once the batch has completed.
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

// board appends an input.
func (f *flight[In, Out]) board(ctx context.Context, in In) {
	deadline, _ := ctx.Deadline()
	f.inputs = append(f.inputs, in)
	f.deadlines = append(f.deadlines, deadline)
	f.aboard++
}

// leave removes a waiter. If it was the last one, no caller needs the batch: before its start it will not run, and after its start
// its context ends.
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

// start finalizes the inputs. It returns false if all callers have left.
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

// land completes the batch and wakes its callers.
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

// outcome returns the result for a caller that waited until the batch completed.
func (f *flight[In, Out]) outcome(seat int) (Out, error) {
	if f.err != nil {
		var none Out
		return none, f.err
	}
	// Inputs of callers that left before the start were removed, which decreased the indexes after them.
	before, _ := slices.BinarySearch(f.left, seat)
	return f.outputs[seat-before], nil
}

// without removes the elements at the given sorted indexes.
func without[T any](all []T, seats []int) []T {
	kept := all[:0]
	for i, e := range all {
		if len(seats) > 0 && seats[0] == i {
			seats = seats[1:]
			continue
		}
		kept = append(kept, e)
	}
	clear(all[len(kept):]) // release the inputs of callers that left
	return kept
}

// latest returns the latest deadline, or the zero time if any caller has none.
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

// flightContext reports the deadline to Execute, for clients that pass it on. It needs no timer: a caller leaves when its own context
// ends, and when the last caller leaves, the context of the batch ends.
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
