// Package batch groups calls into batches. It runs one batch at a time for each key, and calls that arrive during a batch join the
// next one. The busier a key is, the larger are its batches, so that many callers share the cost of one batch.
//
// A call for an idle key runs at once. Window can add a batch window: a busy key then waits until its next batch is full, so that
// fewer batches carry more inputs.
package batch

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// Execute runs one batch. It returns outputs aligned with inputs, which are in order of arrival. An error applies to all callers.
//
// ctx ends when all callers of the batch have left. Its deadline is the latest deadline of the callers, if all
// of them have one. It carries no values, because the callers' values differ.
type Execute[K comparable, In, Out any] func(ctx context.Context, key K, inputs []In) ([]Out, error)

// Batcher groups calls into batches. Keys are independent, and a key without calls takes no memory.
type Batcher[K comparable, In, Out any] struct {
	// Window returns the batch window of a key after a batch that took the given time: the key waits for at most maxWait, or until
	// fullAt callers are queued for the next batch. depth is the queue depth: the maximum number of callers in a batch and queued
	// behind it, decreased by an eighth with each batch. A nil Window means no window. Set it before the first call of Do; it is called
	// concurrently for different keys.
	Window func(key K, depth int, took time.Duration) (maxWait time.Duration, fullAt int)

	// BeforeStart, if set, is called before each batch of a key starts. A simulation advances virtual time in it, so that all calls of one
	// instant join the batch, in any scheduling order of their goroutines. Set it before the first call.
	BeforeStart func(key K)

	execute Execute[K, In, Out]

	mu sync.Mutex
	// queues has the keys with a goroutine that runs batches. A queue is removed after its last batch.
	queues map[K]*queue[In, Out]
	// drained signals that queues has become empty.
	drained *sync.Cond
}

// queue has the batches of a key. Batcher.mu guards it.
type queue[In, Out any] struct {
	// running is the running batch. It is nil before the first batch has started.
	running *singleBatch[In, Out]
	// next is the batch that calls join. It is nil if no call has arrived since the last batch started.
	next *singleBatch[In, Out]
	// depth is the queue depth; see Window.
	depth int
	// full is closed when enough callers are queued. It is nil unless the window waits for that.
	full   chan struct{}
	fullAt int
}

// queued returns the number of callers that wait for the next batch.
func (l *queue[In, Out]) queued() int {
	if l.next == nil {
		return 0
	}
	return l.next.waiters
}

func (l *queue[In, Out]) endWindow() {
	if l.full != nil {
		close(l.full)
		l.full = nil
	}
}

// New returns a Batcher that runs batches by execute.
func New[K comparable, In, Out any](execute Execute[K, In, Out]) *Batcher[K, In, Out] {
	b := &Batcher[K, In, Out]{execute: execute, queues: map[K]*queue[In, Out]{}}
	b.drained = sync.NewCond(&b.mu)
	return b
}

// Do joins the next batch of a key and waits for its own output. When ctx ends, it returns the cause at once, even if the batch
// continues. An input whose caller left before its batch started is not executed.
func (b *Batcher[K, In, Out]) Do(ctx context.Context, key K, in In) (Out, error) {
	outs, err := b.DoAll(ctx, key, []In{in})
	if err != nil {
		var none Out
		return none, err
	}
	return outs[0], nil
}

// DoAll is Do for several inputs at a time. They share a batch and keep their order.
func (b *Batcher[K, In, Out]) DoAll(ctx context.Context, key K, ins []In) ([]Out, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if len(ins) == 0 {
		return nil, nil
	}
	joined, first := b.enqueue(ctx, key, ins)
	select {
	case <-joined.completed:
	case <-ctx.Done():
		if !b.abandon(ctx, joined, first, len(ins)) {
			return nil, context.Cause(ctx)
		}
	}
	outs := make([]Out, len(ins))
	for i := range ins {
		var err error
		if outs[i], err = joined.result(first + i); err != nil {
			return nil, err
		}
	}
	return outs, nil
}

// Callers returns the number of inputs whose callers currently wait, including those of running batches.
func (b *Batcher[K, In, Out]) Callers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	callers := 0
	for _, l := range b.queues {
		callers += l.queued()
		if l.running != nil {
			callers += l.running.waiters
		}
	}
	return callers
}

// Wait returns once no batch runs. Use it for shutdown, when there are no more calls of Do. Otherwise there may always be a running
// batch.
func (b *Batcher[K, In, Out]) Wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queues) > 0 {
		b.drained.Wait()
	}
}

// enqueue adds inputs to the key's next batch, and ensures that the batch will start. It returns the index of the first input; the
// others follow it.
func (b *Batcher[K, In, Out]) enqueue(ctx context.Context, key K, ins []In) (*singleBatch[In, Out], int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.queues[key]
	if l == nil {
		l = &queue[In, Out]{}
		b.queues[key] = l
		go b.flushQueue(key, l)
	}
	if l.next == nil {
		l.next = newSingleBatch[In, Out]()
	}
	first := len(l.next.inputs)
	for _, in := range ins {
		l.next.add(ctx, in)
	}
	if l.queued() >= l.fullAt {
		l.endWindow()
	}
	return l.next, first
}

// abandon removes waiters, from index first on. It returns true if the batch has already completed, so that there is an outcome.
func (b *Batcher[K, In, Out]) abandon(ctx context.Context, joined *singleBatch[In, Out], first, count int) (completed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-joined.completed:
		return true
	default:
		for i := range count {
			joined.abandon(first+i, context.Cause(ctx))
		}
		return false
	}
}

// flushQueue runs the batches of a key until no caller waits for another.
func (b *Batcher[K, In, Out]) flushQueue(key K, l *queue[In, Out]) {
	finished := false
	defer func() {
		if !finished {
			// Execute has ended this goroutine, as a failing test does. The key needs a new one.
			go b.flushQueue(key, l)
		}
	}()
	for {
		if b.BeforeStart != nil {
			b.BeforeStart(key)
		}
		next := b.startNext(key, l)
		if next == nil {
			finished = true
			return
		}
		began := time.Now()
		b.flush(key, l, next)
		if b.Window != nil {
			maxWait, fullAt := b.Window(key, l.depth, time.Since(began))
			b.awaitWindow(l, maxWait, fullAt)
		}
		// The callers that this batch has just woken may call again, and other callers may be about to. Let them run first, so that they
		// share the next batch. If no goroutine is ready to run, this costs next to nothing.
		runtime.Gosched()
	}
}

// awaitWindow waits until enough callers are queued, or until maxWait has passed.
func (b *Batcher[K, In, Out]) awaitWindow(l *queue[In, Out], maxWait time.Duration, fullAt int) {
	b.mu.Lock()
	if maxWait <= 0 || l.queued() >= fullAt {
		b.mu.Unlock()
		return
	}
	full := make(chan struct{})
	l.full, l.fullAt = full, fullAt
	b.mu.Unlock()
	select {
	case <-full:
	case <-time.After(maxWait):
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l.full = nil
}

// startNext starts the next batch, or removes the queue if there is none.
func (b *Batcher[K, In, Out]) startNext(key K, l *queue[In, Out]) *singleBatch[In, Out] {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := l.next
	l.next, l.running = nil, next
	if next == nil || !next.start() {
		delete(b.queues, key)
		if len(b.queues) == 0 {
			b.drained.Broadcast()
		}
		return nil
	}
	return next
}

// flush executes one batch and completes it, even if Execute panics or ends the goroutine.
func (b *Batcher[K, In, Out]) flush(key K, l *queue[In, Out], started *singleBatch[In, Out]) {
	var outputs []Out
	err := errExited
	defer func() {
		if reason := recover(); reason != nil {
			err = panicked(reason)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		started.complete(outputs, err)
		l.depth = max(len(started.inputs)+l.queued(), l.depth*7/8)
	}()
	outputs, err = b.execute(started.ctx, key, started.inputs)
}
