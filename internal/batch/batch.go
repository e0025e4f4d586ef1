// Package batch lets callers that want something of the same key share one flight. While a flight runs, what
// arrives for its key waits and joins the next one.
package batch

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Execute runs one flight: its outputs stand in the order of its inputs, and an error is everybody's. Its
// context ends when all callers of the flight have left, and carries the latest of their deadlines.
type Execute[K comparable, In, Out any] func(ctx context.Context, key K, inputs []In) ([]Out, error)

// Batch has at most one flight in the air for each key. Keys do not wait for each other, and a key without
// callers takes no memory.
type Batch[K comparable, In, Out any] struct {
	execute Execute[K, In, Out]

	mu      sync.Mutex
	queues  map[K]*queue[In, Out]
	flights sync.WaitGroup
}

// queue is the callers of one key that wait for the next flight; it exists while a flight of the key runs.
type queue[In, Out any] struct {
	waiting []*caller[In, Out]
}

// caller is one call of Do.
type caller[In, Out any] struct {
	ctx    context.Context
	in     In
	result chan result[Out]
}

type result[Out any] struct {
	out Out
	err error
}

// New returns a batch whose flights are run by execute.
func New[K comparable, In, Out any](execute Execute[K, In, Out]) *Batch[K, In, Out] {
	return &Batch[K, In, Out]{execute: execute, queues: map[K]*queue[In, Out]{}}
}

// Do adds an input to the next flight of its key and returns what became of it. When ctx ends before that, Do
// returns its cause at once: an input whose flight has not started then is never executed, one whose flight
// has started may or may not take effect.
func (b *Batch[K, In, Out]) Do(ctx context.Context, key K, in In) (Out, error) {
	if ctx.Err() != nil {
		var none Out
		return none, context.Cause(ctx)
	}
	c := &caller[In, Out]{ctx: ctx, in: in, result: make(chan result[Out], 1)}
	b.join(key, c)
	select {
	case r := <-c.result:
		return r.out, r.err
	case <-ctx.Done():
		var none Out
		return none, context.Cause(ctx)
	}
}

// Wait returns when no flight is in the air.
func (b *Batch[K, In, Out]) Wait() { b.flights.Wait() }

func (b *Batch[K, In, Out]) join(key K, c *caller[In, Out]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, flying := b.queues[key]
	if !flying {
		q = &queue[In, Out]{}
		b.queues[key] = q
		b.flights.Add(1)
		go b.fly(key, q)
	}
	q.waiting = append(q.waiting, c)
}

// fly runs flights of a key until nobody waits for the next one.
func (b *Batch[K, In, Out]) fly(key K, q *queue[In, Out]) {
	defer b.flights.Done()
	for {
		callers := b.board(key, q)
		if callers == nil {
			return
		}
		b.run(key, callers)
	}
}

// board takes everybody who waits; nil ends the key's flights.
func (b *Batch[K, In, Out]) board(key K, q *queue[In, Out]) []*caller[In, Out] {
	b.mu.Lock()
	defer b.mu.Unlock()
	callers := q.waiting
	q.waiting = nil
	if len(callers) == 0 {
		delete(b.queues, key)
	}
	return callers
}

// run executes one flight with those of its callers that have not left yet.
func (b *Batch[K, In, Out]) run(key K, callers []*caller[In, Out]) {
	aboard, inputs := callers[:0], make([]In, 0, len(callers))
	for _, c := range callers {
		if c.ctx.Err() == nil {
			aboard, inputs = append(aboard, c), append(inputs, c.in)
		}
	}
	if len(aboard) == 0 {
		return
	}
	ctx, land := flightContext(aboard)
	defer land()
	outs, err := b.guarded(ctx, key, inputs)
	for i, c := range aboard {
		if err != nil {
			c.result <- result[Out]{err: err}
			continue
		}
		c.result <- result[Out]{out: outs[i]}
	}
}

// guarded turns a panic, and a wrong number of outputs, into an error of this flight alone.
func (b *Batch[K, In, Out]) guarded(ctx context.Context, key K, inputs []In) (outs []Out, err error) {
	defer func() {
		if p := recover(); p != nil {
			outs, err = nil, fmt.Errorf("flight of %v panicked: %v\n%s", key, p, debug.Stack())
		}
	}()
	outs, err = b.execute(ctx, key, inputs)
	if err == nil && len(outs) != len(inputs) {
		return nil, fmt.Errorf("flight of %v returned %d outputs for %d inputs", key, len(outs), len(inputs))
	}
	return outs, err
}

// flightContext lives as long as one of the callers does, and has the values of the first.
func flightContext[In, Out any](callers []*caller[In, Out]) (context.Context, context.CancelFunc) {
	if len(callers) == 1 {
		return context.WithCancel(callers[0].ctx)
	}
	ctx := context.WithoutCancel(callers[0].ctx)
	var cancel context.CancelFunc
	if latest, ok := latestDeadline(callers); ok {
		ctx, cancel = context.WithDeadline(ctx, latest)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	var mu sync.Mutex
	left, stops := len(callers), make([]func() bool, 0, len(callers))
	leave := func() {
		mu.Lock()
		defer mu.Unlock()
		if left--; left == 0 {
			cancel()
		}
	}
	for _, c := range callers {
		stops = append(stops, context.AfterFunc(c.ctx, leave))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// latestDeadline is the last of the callers' deadlines; ok is false when one of them has none.
func latestDeadline[In, Out any](callers []*caller[In, Out]) (latest time.Time, ok bool) {
	for _, c := range callers {
		deadline, ok := c.ctx.Deadline()
		if !ok {
			return time.Time{}, false
		}
		if deadline.After(latest) {
			latest = deadline
		}
	}
	return latest, true
}
