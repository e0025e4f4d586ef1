package sharding

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// job identifies an object that a reconciler works on.
type job struct {
	kind schema.GroupVersionKind
	key  client.ObjectKey
}

// work tracks the shard's work in progress. The shard releases an object or its Lease only after the work on it is done.
type work struct {
	mu sync.Mutex
	// done is signaled whenever some work has ended.
	done *sync.Cond
	// jobs counts the workers of each object. releasing means that there are none, and that none may begin.
	jobs   map[job]int
	writes int
	// lastUnknownWrite is when a write last ended without a known outcome.
	lastUnknownWrite time.Time
}

const releasing = -1

func newWork() *work {
	w := &work{jobs: map[job]int{}}
	w.done = sync.NewCond(&w.mu)
	return w
}

// begin records that a worker starts on an object. It returns false while the object is being released.
func (w *work) begin(j job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs[j] == releasing {
		return false
	}
	w.jobs[j]++
	return true
}

func (w *work) end(j job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs[j]--; w.jobs[j] == 0 {
		delete(w.jobs, j)
	}
	w.done.Broadcast()
}

// startRelease prevents work on an object until endRelease is called. It returns false if a worker is active.
func (w *work) startRelease(j job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs[j] != 0 {
		return false
	}
	w.jobs[j] = releasing
	return true
}

func (w *work) endRelease(j job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.jobs, j)
	w.done.Broadcast()
}

// write records that a write has begun. The returned function records that it has ended.
func (w *work) write() (ended func(unknown bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	return func(unknown bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.writes--
		if unknown {
			w.lastUnknownWrite = time.Now()
		}
		w.done.Broadcast()
	}
}

// waitIdle waits until no work is in progress, and returns an error if a write that ended within the window can still take effect.
// The caller must ensure that no new work begins.
func (w *work) waitIdle(ctx context.Context, window time.Duration) error {
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.done.Broadcast()
	})
	defer stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.jobs)+w.writes > 0 && ctx.Err() == nil {
		w.done.Wait()
	}
	return w.pendingError(window)
}

// isFinished reports whether no work is in progress and no write can still take effect.
func (w *work) isFinished(window time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pendingError(window) == nil
}

// pendingError returns an error that says what may still take effect.
func (w *work) pendingError(window time.Duration) error {
	if len(w.jobs)+w.writes > 0 {
		return fmt.Errorf("objects that are being reconciled: %d; writes in progress: %d", len(w.jobs), w.writes)
	}
	if !w.lastUnknownWrite.IsZero() && elapsed(w.lastUnknownWrite, time.Now()) < window {
		return fmt.Errorf("a write ended less than %s ago without a known outcome, and may still take effect", window)
	}
	return nil
}
