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

// singleBatch is one batch. Batcher.mu guards it until it has completed. It does not change after that.
type singleBatch[In, Out any] struct {
	inputs []In
	// deadlines are those of the callers, by index. The zero time means no deadline.
	deadlines []time.Time
	// abandoned has the sorted indexes whose callers left before the start. Their inputs are not executed.
	abandoned []int
	// waiters is the number of inputs whose callers wait. It is 0 once the batch has completed.
	waiters int

	// ctx and cancel are nil before the start.
	ctx    context.Context
	cancel context.CancelCauseFunc

	completed chan struct{}
	outputs   []Out
	err       error
}

func newSingleBatch[In, Out any]() *singleBatch[In, Out] {
	return &singleBatch[In, Out]{completed: make(chan struct{})}
}

// add appends an input.
func (s *singleBatch[In, Out]) add(ctx context.Context, in In) {
	deadline, _ := ctx.Deadline()
	s.inputs = append(s.inputs, in)
	s.deadlines = append(s.deadlines, deadline)
	s.waiters++
}

// abandon removes a waiter. If it was the last one, no caller needs the batch: before its start it will not run, and after its start
// its context ends.
func (s *singleBatch[In, Out]) abandon(index int, cause error) {
	s.waiters--
	if s.ctx == nil {
		at, _ := slices.BinarySearch(s.abandoned, index)
		s.abandoned = slices.Insert(s.abandoned, at, index)
		return
	}
	if s.waiters == 0 {
		s.cancel(cause)
	}
}

// start finalizes the inputs. It returns false if all callers have left.
func (s *singleBatch[In, Out]) start() bool {
	if s.waiters == 0 {
		return false
	}
	if len(s.abandoned) > 0 {
		s.inputs, s.deadlines = without(s.inputs, s.abandoned), without(s.deadlines, s.abandoned)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	s.ctx, s.cancel = batchContext{Context: ctx, deadline: latest(s.deadlines)}, cancel
	return true
}

// complete completes the batch and wakes its callers.
func (s *singleBatch[In, Out]) complete(outputs []Out, err error) {
	if err == nil && len(outputs) != len(s.inputs) {
		err = fmt.Errorf("batch: the executor returned %d outputs for %d inputs", len(outputs), len(s.inputs))
	}
	s.outputs, s.err, s.waiters = outputs, err, 0
	if s.cancel != nil {
		s.cancel(nil)
	}
	close(s.completed)
}

// result returns the result for a caller that waited until the batch completed.
func (s *singleBatch[In, Out]) result(index int) (Out, error) {
	if s.err != nil {
		var none Out
		return none, s.err
	}
	// Inputs of callers that left before the start were removed, which decreased the indexes after them.
	before, _ := slices.BinarySearch(s.abandoned, index)
	return s.outputs[index-before], nil
}

// without removes the elements at the given sorted indexes.
func without[T any](all []T, indexes []int) []T {
	kept := all[:0]
	for i, e := range all {
		if len(indexes) > 0 && indexes[0] == i {
			indexes = indexes[1:]
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

// batchContext reports the deadline to Execute, for clients that pass it on. It needs no timer: a caller leaves when its own context
// ends, and when the last caller leaves, the context of the batch ends.
type batchContext struct {
	context.Context
	deadline time.Time
}

func (c batchContext) Deadline() (time.Time, bool) {
	return c.deadline, !c.deadline.IsZero()
}

func panicked(reason any) error {
	return fmt.Errorf("batch: the executor panicked: %v\n%s", reason, debug.Stack())
}
