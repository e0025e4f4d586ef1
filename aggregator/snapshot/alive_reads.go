package snapshot

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// The webhook admits the removal of a pod that has not been ready for minReadySeconds without a reservation (rule 4). No event reports
// that such a pod becomes available, so a snapshot from a lagging stream could count pods that were removed before. Such a pod therefore
// counts only when a list or a live read that began after it became available has shown it alive.

const (
	// AliveReadMinInterval is the minimum time between two live reads that make pods of one protector count.
	AliveReadMinInterval = time.Second
	// AliveReadMaxInterval is the longest wait for the next. After a slow read, the wait is aliveReadBackoffFactor times the duration of that read.
	AliveReadMaxInterval   = 10 * time.Second
	aliveReadBackoffFactor = 20
)

// SinceCreation returns the time since the snapshot was created, on the monotonic clock. It is never 0.
func (s *Snapshot) SinceCreation() time.Duration { return s.monotonic().Sub(s.createdAt) + 1 }

// RecordAlive records which pods were shown alive by a live read that began at the time began of SinceCreation. A pod of an earlier version than that of
// the snapshot is one of a cell that was restored: it has not become ready as the snapshot shows.
func (s *Snapshot) RecordAlive(live *LiveRead, began time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for hash := range live.Pods {
		if p := s.pods.byHash[hash]; p != nil && live.isAlive(hash) && live.Pods[hash].Version >= p.version {
			p.seenAlive = max(p.seenAlive, began)
		}
	}
}

// instant is one point in time on two clocks: the wall clock, and Snapshot.SinceCreation.
type instant struct {
	wall          time.Time
	sinceCreation time.Duration
}

// health returns the health of a pod at an instant. A pod that became available by the passing of time is not available unless it was
// seen alive since. It compares how long ago both were, because the wall clock may have been set in between.
func (p *pod) health(minReady int32, at instant) podhealth.Health {
	h := p.facts.At(minReady, at.wall)
	if !h.AvailableSince.IsZero() && (p.seenAlive == 0 || at.sinceCreation-p.seenAlive > at.wall.Sub(h.AvailableSince)) {
		h.Available, h.AvailableSince = false, time.Time{}
	}
	return h
}

// health returns the health of a pod, and counts the pod in unseen if it must be seen alive before it counts.
func (c *Count) health(p *pod, minReady int32, criterion v1alpha1.Criterion, at instant) podhealth.Health {
	h := p.health(minReady, at)
	if minReady > 0 && !h.Counted(criterion) && p.facts.At(minReady, at.wall).Counted(criterion) {
		c.Unseen++
	}
	return h
}

// AliveReads reads which pods are alive and records it in the snapshot. It is safe for concurrent use.
type AliveReads struct {
	Snapshot *Snapshot
	// ReadLive asks the cell's API server for the pods of a namespace that a selector matches.
	ReadLive  func(ctx context.Context, namespace, selector string) (LiveRead, error)
	Monotonic func() time.Time
	// Next is when the cell may be asked again which pods of a protector are alive, on the monotonic clock.
	Next ownership.Map[time.Time]
}

// ReadLimited asks the cell's API server which pods of a protector are alive, so that pods that became available by time alone can count.
// If it is too early for another read, it reads no pod and returns the time to wait.
func (r *AliveReads) ReadLimited(ctx context.Context, p *v1alpha1.PodProtector, target *v1alpha1.Target) (wait time.Duration, err error) {
	key := client.ObjectKeyFromObject(p)
	if wait = r.Next.Get(key).Sub(r.Monotonic()); wait > 0 {
		return wait, nil
	}
	pods, err := selectors.CountedCoverageOf(&p.Spec, target)
	if err != nil {
		return 0, fmt.Errorf("read which pods are alive: %w", err)
	}
	began := r.Monotonic()
	_, err = r.Read(ctx, key.Namespace, pods.Key())
	// The process may have been paused during the read.
	pause := min(max(AliveReadMinInterval, aliveReadBackoffFactor*r.Monotonic().Sub(began)), AliveReadMaxInterval)
	r.Next.Set(key, r.Monotonic().Add(pause))
	return 0, err
}

// Read is ReadLive that also records in the snapshot which pods were alive.
func (r *AliveReads) Read(ctx context.Context, namespace, selector string) (LiveRead, error) {
	began := r.Snapshot.SinceCreation()
	live, err := r.ReadLive(ctx, namespace, selector)
	if err == nil {
		r.Snapshot.RecordAlive(&live, began)
	}
	return live, err
}
