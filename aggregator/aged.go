package aggregator

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// The webhook admits the removal of a pod that has not been ready for minReadySeconds without a reservation (rule 4). No event reports
// that such a pod becomes available, so a snapshot from a lagging stream could count pods that were removed before. Such a pod therefore
// counts only when a list or a live read that began after it became available has shown it alive.

const (
	// aliveReadEvery is the minimum time between two live reads that make pods of one protector count, and aliveReadAtLast the longest
	// wait for the next. After a slow read, the wait is aliveReadShare times the duration of that read.
	aliveReadEvery, aliveReadAtLast = time.Second, 10 * time.Second
	aliveReadShare                  = 20
)

// sinceBegan returns the time since the snapshot was created, on the monotonic clock. It is never 0.
func (s *Snapshot) sinceBegan() time.Duration { return s.monotonic().Sub(s.began) + 1 }

// SawAlive records which pods were shown alive by a live read that began at the time began of sinceBegan.
func (s *Snapshot) SawAlive(live *liveRead, began time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for hash := range live.pods {
		if p := s.pods[hash]; p != nil && live.alive(hash) {
			p.seenAlive = max(p.seenAlive, began)
		}
	}
}

// instant is one point in time on two clocks: the wall clock, and Snapshot.sinceBegan.
type instant struct {
	wall       time.Time
	sinceBegan time.Duration
}

// health returns the health of a pod at an instant. A pod that became available by the passing of time is not available unless it was
// seen alive since. It compares how long ago both were, because the wall clock may have been set in between.
func (p *pod) health(minReady int32, at instant) podhealth.Health {
	h := p.facts.At(minReady, at.wall)
	if !h.AvailableSince.IsZero() && (p.seenAlive == 0 || at.sinceBegan-p.seenAlive > at.wall.Sub(h.AvailableSince)) {
		h.Available, h.AvailableSince = false, time.Time{}
	}
	return h
}

// health returns the health of a pod, and counts the pod in unseen if it must be seen alive before it counts.
func (c *count) health(p *pod, minReady int32, criterion v1alpha1.Criterion, at instant) podhealth.Health {
	h := p.health(minReady, at)
	if minReady > 0 && !h.Counted(criterion) && p.facts.At(minReady, at.wall).Counted(criterion) {
		c.unseen++
	}
	return h
}

// readAlive asks the cell's API server which pods of a protector are alive, so that pods that became available by time alone can count.
// If it is too early for another read, it reads no pod and returns the time to wait.
func (t *term) readAlive(ctx context.Context, p *v1alpha1.PodProtector, target *v1alpha1.Target) (wait time.Duration, err error) {
	key := keyOf(p)
	t.mu.Lock()
	wait = t.aliveReads[key].Sub(t.monotonic())
	t.mu.Unlock()
	if wait > 0 {
		return wait, nil
	}
	pods, err := selectors.CountedOf(&p.Spec, target)
	if err != nil {
		return 0, fmt.Errorf("read which pods are alive: %w", err)
	}
	began := t.monotonic()
	_, err = t.seeAlive(ctx, key.Namespace, pods.Key())
	t.mu.Lock()
	defer t.mu.Unlock()
	pause := min(max(aliveReadEvery, aliveReadShare*t.monotonic().Sub(began)), aliveReadAtLast) // the process may have been paused during the read
	t.aliveReads[key] = t.monotonic().Add(pause)
	return 0, err
}

// seeAlive is readLive that also records in the snapshot which pods were alive.
func (t *term) seeAlive(ctx context.Context, namespace, selector string) (liveRead, error) {
	began := t.snapshot.sinceBegan()
	live, err := t.readLive(ctx, namespace, selector)
	if err == nil {
		t.snapshot.SawAlive(&live, began)
	}
	return live, err
}
