// Package batch runs work in flights: one at a time for a key, and what arrives during a flight joins the next.
// The busier a key is, the larger its flights, so that the cost of one flight is shared by many callers.
//
// A call for an idle key flies at once. Linger can make a busy key wait until its next flight is full, so that fewer
// flights carry more.
package batch

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// ErrClosed is the answer to calls that Close has cut off.
var ErrClosed = errors.New("batch: closed")

// Execute runs one flight: outputs aligned with inputs, which are in order of arrival; an error is everybody's.
//
// ctx ends when all callers of the flight have left or the Batch is closed; its deadline is the latest of its
// callers, if all have one. It carries no values: callers differ in theirs.
type Execute[K comparable, In, Out any] func(ctx context.Context, key K, inputs []In) ([]Out, error)

// Batch gathers calls into flights. Keys are independent, and a key without calls takes no memory.
type Batch[K comparable, In, Out any] struct {
	// Linger says how long a key waits after a flight that took so long, until enough callers for the next one are
	// aboard. crowd is how many it has at a time: the most that its last flights have seen, aboard and behind them, less
	// an eighth with each flight. Nil is not to wait. Set it before the first call of Do; keys call it concurrently.
	Linger func(key K, crowd int, took time.Duration) (most time.Duration, enough int)

	// Boarding, if set, is called before each flight of a key takes off. A simulation lets virtual time go on there, so that
	// all who call at one instant are aboard, whichever of them the scheduler lets run first. Set it before the first call.
	Boarding func(key K)

	execute Execute[K, In, Out]

	mu     sync.Mutex
	closed bool
	// lines has the keys that somebody flies for. A line leaves when its last flight has landed.
	lines map[K]*line[In, Out]
	// drained tells that lines has become empty.
	drained *sync.Cond
}

// line is a key's flights. Batch.mu guards it.
type line[In, Out any] struct {
	// flying is the flight under way, or nil before the first has started.
	flying *flight[In, Out]
	// boarding is the flight that calls join, or nil when none has since the last one started.
	boarding *flight[In, Out]
	// crowd is how many callers there are at a time.
	crowd int
	// full is closed when enough callers are aboard; nil while nobody waits for that.
	full   chan struct{}
	enough int
}

// aboard is the number of callers who wait for the next flight.
func (l *line[In, Out]) aboard() int {
	if l.boarding == nil {
		return 0
	}
	return l.boarding.aboard
}

// goOn ends the waiting for callers.
func (l *line[In, Out]) goOn() {
	if l.full != nil {
		close(l.full)
		l.full = nil
	}
}

// New returns a Batch whose flights are run by execute.
func New[K comparable, In, Out any](execute Execute[K, In, Out]) *Batch[K, In, Out] {
	b := &Batch[K, In, Out]{execute: execute, lines: map[K]*line[In, Out]{}}
	b.drained = sync.NewCond(&b.mu)
	return b
}

// Do joins the next flight of a key and waits for its own output. When ctx ends it returns the cause at once,
// even when the flight goes on; an input whose caller left before its flight started is not executed.
func (b *Batch[K, In, Out]) Do(ctx context.Context, key K, in In) (Out, error) {
	outs, err := b.DoAll(ctx, key, []In{in})
	if err != nil {
		var none Out
		return none, err
	}
	return outs[0], nil
}

// DoAll is Do for several inputs at a time, which share a flight, in their order.
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

// Callers is the number of calls that wait for their answer now, those of flights under way included.
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

// Wait returns when no flight is under way. It is meant for the end, when nobody calls Do any more: with calls
// coming in there may always be one.
func (b *Batch[K, In, Out]) Wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.lines) > 0 {
		b.drained.Wait()
	}
}

// Close cuts off: the contexts of all flights end with ErrClosed, calls that wait for a flight and all later
// ones fail with it. A call whose flight is under way gets what that flight makes of its end. Close does not
// wait.
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

// board joins the flight of the key that has not started yet, and sees to it that it starts. It returns the first of the
// seats, which follow each other.
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

// leave gives up seats, from the first on. It is true when the flight has landed before: there is an outcome after all.
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

// fly runs the flights of a key until nobody waits for another.
func (b *Batch[K, In, Out]) fly(key K, l *line[In, Out]) {
	finished := false
	defer func() {
		if !finished {
			// The executor has ended this goroutine, as a test does that fails. The key needs a new one.
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
		// The callers who have just been woken may call again, and others be about to: let them run first, so
		// that they share the next flight. When nobody is ready to run this costs next to nothing.
		runtime.Gosched()
	}
}

// linger waits until enough callers are aboard, for most of the time at most.
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

// takeOff starts the flight that is boarding, or takes the line away when there is none.
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

// run executes one flight and lands it, whatever the executor does.
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
