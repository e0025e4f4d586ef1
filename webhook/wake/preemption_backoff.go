package wake

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

const (
	// schedulerUser is the user of kube-scheduler. Since it preempts asynchronously (1.33), it retries the deletion of a
	// victim as soon as it is refused, for as long as the refusals last: 47 times a second with its default client limits,
	// and up to 380 times without limits. Meanwhile it deletes the other victims on the node, and still has no room for the preemptor.
	schedulerUser = "system:kube-scheduler"
	// minDenialInterval is the minimum time between two refusals of one pod to the scheduler. The scheduler does other work
	// while it waits for an answer.
	minDenialInterval = time.Second
	// maxTrackedVictims limits the number of remembered pods. The first refusal of a pod that is not remembered is not
	// delayed.
	maxTrackedVictims = 10000
)

// PreemptionBackoff records the time of the last refusal of each pod to the scheduler. The zero value is ready, and safe for
// concurrent use.
type PreemptionBackoff struct {
	mu   sync.Mutex
	last map[types.UID]time.Time
}

// Delay delays a refusal to the scheduler until minDenialInterval has passed since the last one for the same pod, or until ctx
// ends.
func (b *PreemptionBackoff) Delay(ctx context.Context, r removal.Request, now time.Time) {
	if r.User != schedulerUser || r.DryRun {
		return
	}
	wait := b.reserveDelay(r.Pod.UID, now)
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

// reserveDelay returns how long a refusal has to wait, and records when it will be sent.
func (b *PreemptionBackoff) reserveDelay(pod types.UID, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.last) >= maxTrackedVictims {
		maps.DeleteFunc(b.last, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= minDenialInterval })
	}
	if b.last == nil || len(b.last) >= maxTrackedVictims {
		b.last = map[types.UID]time.Time{}
	}
	wait := time.Duration(0)
	if last, denied := b.last[pod]; denied {
		// Concurrent requests for one pod all wait for the same moment.
		wait = min(max(last.Add(minDenialInterval).Sub(now), 0), minDenialInterval)
	}
	if at := now.Add(wait); at.After(b.last[pod]) {
		b.last[pod] = at
	}
	return wait
}
