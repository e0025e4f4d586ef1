package webhook

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

const (
	// scheduler is the user of kube-scheduler. Since it preempts asynchronously (1.33), it asks again for a victim that it was refused
	// as fast as it is answered, 200 times a second, for as long as the refusal lasts.
	scheduler = "system:kube-scheduler"
	// insistPause is the least time between two refusals of one pod to the scheduler. It waits for no answer while it does other work.
	insistPause = time.Second
	// mostInsistent bounds the memory. What is forgotten is refused at once.
	mostInsistent = 10000
)

// insistence knows when the scheduler was refused which pod last. The zero value is ready, and safe for concurrent use.
type insistence struct {
	mu   sync.Mutex
	last map[types.UID]time.Time
}

// hold keeps a refusal back while the last one of the same pod was a short time ago, or until ctx ends.
func (i *insistence) hold(ctx context.Context, r removal.Request, now time.Time) {
	if r.User != scheduler || r.DryRun {
		return
	}
	wait := i.pause(r.Pod.UID, now)
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// pause tells how long a refusal has to wait, and notes when it is given.
func (i *insistence) pause(pod types.UID, now time.Time) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.last) >= mostInsistent {
		maps.DeleteFunc(i.last, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= insistPause })
	}
	if i.last == nil || len(i.last) >= mostInsistent {
		i.last = map[types.UID]time.Time{}
	}
	wait := time.Duration(0)
	if last, refused := i.last[pod]; refused {
		// Of several that ask at once each waits for the same moment.
		wait = min(max(last.Add(insistPause).Sub(now), 0), insistPause)
	}
	if at := now.Add(wait); at.After(i.last[pod]) {
		i.last[pod] = at
	}
	return wait
}
