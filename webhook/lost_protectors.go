package webhook

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// protectorState is the state of a protector that the watch has shown.
type protectorState struct {
	last *v1alpha1.PodProtector
	// lost reports that the protector no longer exists although no client has released it. Its last state stays in
	// force for as long as this process remembers it. No reservation can be made with it, so the webhook refuses every
	// removal that it would be charged for.
	lost bool
}

// newestState returns the newest known state of a protector. A lost protector is returned in its last seen state, with
// vanished set.
func (c *core) newestState(ctx context.Context, key types.NamespacedName) (p *v1alpha1.PodProtector, lost bool, err error) {
	p, err = c.protectors.Newest(ctx, key)
	if err == nil {
		quota.VoidCountsUntil(p, c.restoreDetector.LostVersion())
	}
	if apierrors.IsNotFound(err) {
		if last := c.lastLostState(key); last != nil {
			return last, true, nil
		}
	}
	return p, false, err
}

// lastLostState returns the last state of a protector that no longer exists; nil when a client has released it. It relies
// on the watch, so it may return a protector that was released a moment ago, until the watch has shown the release.
func (c *core) lastLostState(key types.NamespacedName) *v1alpha1.PodProtector {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if k, ok := c.lastStates[key]; ok && clusters.WasLost(k.last) {
		return k.last
	}
	return nil
}

// resultsWithoutProtector answers operations on a protector that no longer exists.
func (c *core) resultsWithoutProtector(key types.NamespacedName, ops []historyOp) []opResult {
	results := make([]opResult, len(ops))
	last := c.lastLostState(key)
	for i := range results {
		if results[i].released = last == nil; last != nil && !ops[i].giveBack {
			results[i].verdict = quota.Verdict{Outcome: quota.DeniedVanished, Budget: quota.BudgetOf(last)}
		}
	}
	return results
}

// handleDelete records that a protector no longer exists. whole is its last state or, if the watch was interrupted, the last
// state seen.
func (c *core) handleDelete(deleted any) {
	obj := deleted
	if tombstone, unwatched := obj.(toolscache.DeletedFinalStateUnknown); unwatched {
		obj = tombstone.Obj
	}
	last, _ := obj.(*v1alpha1.PodProtector)
	if clusters.WasLost(last) {
		c.markLost(last)
		return
	}
	if key, err := toolscache.DeletionHandlingObjectToName(deleted); err == nil {
		c.dropProtector(types.NamespacedName{Namespace: key.Namespace, Name: key.Name})
	}
}

func (c *core) markLost(last *v1alpha1.PodProtector) {
	key := client.ObjectKeyFromObject(last)
	c.storeCoverage(last)
	c.mu.Lock()
	k := c.lastStates[key]
	k.lost = true
	c.lastStates[key] = k
	c.mu.Unlock()
	c.log.Info("PodProtector was deleted without being released, refusing its removals until it is recreated",
		"protector", key, "uid", last.UID)
	c.lostQueue.Add(key)
}

// lostRecheckInterval is the interval at which the webhook checks again whether a lost protector was released.
const lostRecheckInterval = time.Minute

func (c *core) dropProtector(key types.NamespacedName) {
	c.conflicts.Delete(key)
	c.coverage.delete(key)
	c.metrics.refusals.drop(c.name, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lastStates, key)
}

// lostCount returns the number of lost protectors: those in force although they no longer exist.
func (c *core) lostCount() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := 0
	for _, k := range c.lastStates {
		if k.lost {
			n++
		}
	}
	return n
}

func newLostQueue() workqueue.TypedRateLimitingInterface[types.NamespacedName] {
	return workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](100*time.Millisecond, 5*time.Second))
}

// recheckLost finds out, until ctx ends, which lost protectors were released by a client: while the watch was interrupted,
// or at the moment at which they were deleted.
func (c *core) recheckLost(ctx context.Context) {
	defer context.AfterFunc(ctx, c.lostQueue.ShutDown)()
	for {
		key, shutdown := c.lostQueue.Get()
		if shutdown {
			return
		}
		if err := c.recheckLostProtector(ctx, key); err != nil {
			c.lostQueue.AddRateLimited(key)
		} else {
			c.lostQueue.Forget(key)
		}
		c.lostQueue.Done(key)
	}
}

func (c *core) recheckLostProtector(ctx context.Context, key types.NamespacedName) error {
	c.mu.RLock()
	k := c.lastStates[key]
	c.mu.RUnlock()
	if !k.lost {
		return nil
	}
	released, err := clusters.WasReleased(ctx, c.protectors.Live, k.last)
	if err != nil {
		return err
	}
	c.mu.RLock()
	same := c.lastStates[key].last == k.last
	c.mu.RUnlock()
	switch {
	case released && same:
		c.dropProtector(key)
		c.log.Info("Dropped deleted PodProtector: it was released", "protector", key)
	case same:
		c.lostQueue.AddAfter(key, lostRecheckInterval)
	}
	return nil
}
