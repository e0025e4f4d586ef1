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
	// scheduler is the user of kube-scheduler. Since it preempts asynchronously (1.33), it retries the deletion of a
	// victim as soon as it is refused, 200 times a second, for as long as the refusals last.
	scheduler = "system:kube-scheduler"
	// insistPause is the minimum time between two refusals of one pod to the scheduler. The scheduler does other work
	// while it waits for an answer.
	insistPause = time.Second
	// mostInsistent limits the number of remembered pods. The first refusal of a pod that is not remembered is not
	// delayed.
	mostInsistent = 10000
)

// insistence records the time of the last refusal of each pod to the scheduler. The zero value is ready, and safe for
// concurrent use.
type insistence struct {
	mu   sync.Mutex
	last map[types.UID]time.Time
}

// hold delays a refusal to the scheduler until insistPause has passed since the last one for the same pod, or until ctx
// ends.
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

// pause returns how long a refusal has to wait, and records when it will be sent.
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
		// Concurrent requests for one pod all wait for the same moment.
		wait = min(max(last.Add(insistPause).Sub(now), 0), insistPause)
	}
	if at := now.Add(wait); at.After(i.last[pod]) {
		i.last[pod] = at
	}
	return wait
}
