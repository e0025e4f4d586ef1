// Package batch groups calls into batches. It runs one batch at a time for each key, and calls that arrive during a batch join the
// next one. The busier a key is, the larger are its batches, so that many callers share the cost of one batch.
//
// A call for an idle key runs at once. Linger can add a batch window: a busy key then waits until its next batch is full, so that
// fewer batches carry more inputs.
package batch

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// ErrClosed is the error of calls that Close aborts or rejects.
var ErrClosed = errors.New("batch: closed")

// Execute runs one batch. It returns outputs aligned with inputs, which are in order of arrival. An error applies to all callers.
//
// ctx ends when all callers of the batch have left or the Batch is closed. Its deadline is the latest deadline of the callers, if all
// of them have one. It carries no values, because the callers' values differ.
type Execute[K comparable, In, Out any] func(ctx context.Context, key K, inputs []In) ([]Out, error)

// Batch groups calls into batches. Keys are independent, and a key without calls takes no memory.
type Batch[K comparable, In, Out any] struct {
	// Linger returns the batch window of a key after a batch that took the given time: it waits for at most most, until enough callers
	// are queued for the next batch. crowd is the queue depth: the maximum number of callers in a batch and queued behind it, decreased
	// by an eighth with each batch. A nil Linger means no window. Set it before the first call of Do; it is called concurrently for
	// different keys.
	Linger func(key K, crowd int, took time.Duration) (most time.Duration, enough int)

	// Boarding, if set, is called before each batch of a key starts. A simulation advances virtual time in it, so that all calls of one
	// instant join the batch, in any scheduling order of their goroutines. Set it before the first call.
	Boarding func(key K)

	execute Execute[K, In, Out]

	mu     sync.Mutex
	closed bool
	// lines has the keys with a goroutine that runs batches. A line is removed after its last batch.
	lines map[K]*line[In, Out]
	// drained signals that lines has become empty.
	drained *sync.Cond
}

// line has the batches of a key. Batch.mu guards it.
type line[In, Out any] struct {
	// flying is the running batch. It is nil before the first batch has started.
	flying *flight[In, Out]
	// boarding is the batch that calls join. It is nil if no call has arrived since the last batch started.
	boarding *flight[In, Out]
	// crowd is the queue depth; see Linger.
	crowd int
	// full is closed when enough callers are queued. It is nil unless linger waits for that.
	full   chan struct{}
	enough int
}

// aboard returns the number of callers that wait for the next batch.
func (l *line[In, Out]) aboard() int {
	if l.boarding == nil {
		return 0
	}
	return l.boarding.aboard
}

// goOn ends the batch window.
func (l *line[In, Out]) goOn() {
	if l.full != nil {
		close(l.full)
		l.full = nil
	}
}

// New returns a Batch that runs batches by execute.
func New[K comparable, In, Out any](execute Execute[K, In, Out]) *Batch[K, In, Out] {
	b := &Batch[K, In, Out]{execute: execute, lines: map[K]*line[In, Out]{}}
	b.drained = sync.NewCond(&b.mu)
	return b
}

// Do joins the next batch of a key and waits for its own output. When ctx ends, it returns the cause at once, even if the batch
// continues. An input whose caller left before its batch started is not executed.
func (b *Batch[K, In, Out]) Do(ctx context.Context, key K, in In) (Out, error) {
	outs, err := b.DoAll(ctx, key, []In{in})
	if err != nil {
		var none Out
		return none, err
	}
	return outs[0], nil
}

// DoAll is Do for several inputs at a time. They share a batch and keep their order.
func (b *Batch[K, In, Out]) DoAll(ctx context.Context, key K, ins []In) ([]Out, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if len(ins) == 0 {
		return nil, nil
	}
	f, seat, err := b.board(ctx, key, ins)
	if err != nil {
		return nil, err
	}
	select {
	case <-f.landed:
	case <-ctx.Done():
		if !b.leave(ctx, f, seat, len(ins)) {
			return nil, context.Cause(ctx)
		}
	}
	outs := make([]Out, len(ins))
	for i := range ins {
		if outs[i], err = f.outcome(seat + i); err != nil {
			return nil, err
		}
	}
	return outs, nil
}

// Callers returns the number of inputs whose callers currently wait, including those of running batches.
func (b *Batch[K, In, Out]) Callers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	callers := 0
	for _, l := range b.lines {
		callers += l.aboard()
		if l.flying != nil {
			callers += l.flying.aboard
		}
	}
	return callers
}

// Wait returns once no batch runs. Use it for shutdown, when there are no more calls of Do. Otherwise there may always be a running
// batch.
func (b *Batch[K, In, Out]) Wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.lines) > 0 {
		b.drained.Wait()
	}
}

// Close ends the contexts of all batches with ErrClosed. Calls that wait for a batch to start, and all later calls, fail with
// ErrClosed. A call whose batch is running gets the result that Execute returns for the ended context. Close does not wait.
func (b *Batch[K, In, Out]) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, l := range b.lines {
		if l.flying != nil {
			l.flying.cancel(ErrClosed)
		}
		if l.boarding != nil {
			l.boarding.land(nil, ErrClosed)
			l.boarding = nil
		}
		l.goOn()
	}
}

// board adds inputs to the key's next batch, and ensures that the batch will start. It returns the index of the first input; the
// others follow it.
func (b *Batch[K, In, Out]) board(ctx context.Context, key K, ins []In) (*flight[In, Out], int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, 0, ErrClosed
	}
	l := b.lines[key]
	if l == nil {
		l = &line[In, Out]{}
		b.lines[key] = l
		go b.fly(key, l)
	}
	if l.boarding == nil {
		l.boarding = newFlight[In, Out]()
	}
	seat := len(l.boarding.inputs)
	for _, in := range ins {
		l.boarding.board(ctx, in)
	}
	if l.aboard() >= l.enough {
		l.goOn()
	}
	return l.boarding, seat, nil
}

// leave removes waiters, from index first on. It returns true if the batch has already completed, so that there is an outcome.
func (b *Batch[K, In, Out]) leave(ctx context.Context, f *flight[In, Out], first, seats int) (landed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-f.landed:
		return true
	default:
		for seat := range seats {
			f.leave(first+seat, context.Cause(ctx))
		}
		return false
	}
}

// fly runs the batches of a key until no caller waits for another.
func (b *Batch[K, In, Out]) fly(key K, l *line[In, Out]) {
	finished := false
	defer func() {
		if !finished {
			// Execute has ended this goroutine, as a failing test does. The key needs a new one.
			go b.fly(key, l)
		}
	}()
	for {
		if b.Boarding != nil {
			b.Boarding(key)
		}
		f := b.takeOff(key, l)
		if f == nil {
			finished = true
			return
		}
		began := time.Now()
		b.run(key, l, f)
		if b.Linger != nil {
			most, enough := b.Linger(key, l.crowd, time.Since(began))
			b.linger(l, most, enough)
		}
		// The callers that this batch has just woken may call again, and other callers may be about to. Let them run first, so that they
		// share the next batch. If no goroutine is ready to run, this costs next to nothing.
		runtime.Gosched()
	}
}

// linger waits until enough callers are queued, or until the time most has passed.
func (b *Batch[K, In, Out]) linger(l *line[In, Out], most time.Duration, enough int) {
	b.mu.Lock()
	if most <= 0 || l.aboard() >= enough || b.closed {
		b.mu.Unlock()
		return
	}
	full := make(chan struct{})
	l.full, l.enough = full, enough
	b.mu.Unlock()
	select {
	case <-full:
	case <-time.After(most):
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l.full = nil
}

// takeOff starts the next batch, or removes the line if there is none.
func (b *Batch[K, In, Out]) takeOff(key K, l *line[In, Out]) *flight[In, Out] {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := l.boarding
	l.boarding, l.flying = nil, f
	if f == nil || !f.start() {
		delete(b.lines, key)
		if len(b.lines) == 0 {
			b.drained.Broadcast()
		}
		return nil
	}
	return f
}

// run executes one batch and completes it, even if Execute panics or ends the goroutine.
func (b *Batch[K, In, Out]) run(key K, l *line[In, Out], f *flight[In, Out]) {
	var outputs []Out
	err := errExited
	defer func() {
		if reason := recover(); reason != nil {
			err = panicked(reason)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		f.land(outputs, err)
		l.crowd = max(len(f.inputs)+l.aboard(), l.crowd*7/8)
	}()
	outputs, err = b.execute(f.ctx, key, f.inputs)
}
