package sharding

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// job is an object that is worked on.
type job struct {
	kind schema.GroupVersionKind
	key  client.ObjectKey
}

// work is what a shard has in its hands now: an object is not let go of, and the Lease not given up, before it is done.
type work struct {
	mu sync.Mutex
	// done is told whenever something has ended.
	done *sync.Cond
	// jobs counts who works on each object; lettingGo is none, and nobody may begin.
	jobs   map[job]int
	writes int
	// unknown is when a write was last given up of which nobody knows whether it takes effect.
	unknown time.Time
}

const lettingGo = -1

func newWork() *work {
	w := &work{jobs: map[job]int{}}
	w.done = sync.NewCond(&w.mu)
	return w
}

// begin notes that somebody works on an object; false when it is just let go of.
func (w *work) begin(j job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs[j] == lettingGo {
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

// letGo keeps everybody from working on an object until kept is called; false when somebody does.
func (w *work) letGo(j job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs[j] != 0 {
		return false
	}
	w.jobs[j] = lettingGo
	return true
}

func (w *work) kept(j job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.jobs, j)
	w.done.Broadcast()
}

// write notes that one has begun, and the function that it returns, that it has ended.
func (w *work) write() (ended func(unknown bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	return func(unknown bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.writes--
		if unknown {
			w.unknown = time.Now()
		}
		w.done.Broadcast()
	}
}

// rest waits until nothing is in hand and no write of the last while can take effect any more. The caller has seen to it that nothing
// begins.
func (w *work) rest(ctx context.Context, while time.Duration) error {
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
	return w.left(while)
}

// isOver tells whether that is so now.
func (w *work) isOver(while time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left(while) == nil
}

// left tells what may still be to come.
func (w *work) left(while time.Duration) error {
	if len(w.jobs)+w.writes > 0 {
		return fmt.Errorf("%d objects are still worked on and %d writes under way", len(w.jobs), w.writes)
	}
	if !w.unknown.IsZero() && elapsed(w.unknown, time.Now()) < while {
		return fmt.Errorf("a write was given up less than %s ago and may still take effect", while)
	}
	return nil
}
