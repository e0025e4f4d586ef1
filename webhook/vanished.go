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

// known is the state of a protector that the watch has shown.
type known struct {
	last *v1alpha1.PodProtector
	// gone reports that the protector no longer exists although no client has released it. Its last state stays in
	// force for as long as this process remembers it. No reservation can be made with it, so the webhook refuses every
	// removal that it would be charged for.
	gone bool
}

// newest returns the newest known state of a protector. A lost protector is returned in its last seen state, with
// vanished set.
func (c *core) newest(ctx context.Context, key types.NamespacedName) (p *v1alpha1.PodProtector, vanished bool, err error) {
	p, err = c.protectors.Newest(ctx, key)
	if err == nil {
		quota.VoidUntil(p, c.past.Lost())
	}
	if apierrors.IsNotFound(err) {
		if last := c.remembered(key); last != nil {
			return last, true, nil
		}
	}
	return p, false, err
}

// remembered returns the last state of a protector that no longer exists; nil when a client has released it. It relies
// on the watch, so it may return a protector that was released a moment ago, until the watch has shown the release.
func (c *core) remembered(key types.NamespacedName) *v1alpha1.PodProtector {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if k, ok := c.known[key]; ok && clusters.Vanished(k.last) {
		return k.last
	}
	return nil
}

// withoutProtector answers asks for a protector that no longer exists.
func (c *core) withoutProtector(key types.NamespacedName, asks []ask) []answer {
	answers := make([]answer, len(asks))
	last := c.remembered(key)
	for i := range answers {
		if answers[i].released = last == nil; last != nil && !asks[i].giveBack {
			answers[i].verdict = quota.Verdict{Outcome: quota.RefusedVanished, Budget: quota.BudgetOf(last)}
		}
	}
	return answers
}

// uncover records that a protector no longer exists. whole is its last state or, if the watch was interrupted, the last
// state seen.
func (c *core) uncover(whole any) {
	obj := whole
	if tombstone, unwatched := obj.(toolscache.DeletedFinalStateUnknown); unwatched {
		obj = tombstone.Obj
	}
	last, _ := obj.(*v1alpha1.PodProtector)
	if clusters.Vanished(last) {
		c.vanish(last)
		return
	}
	if key, err := toolscache.DeletionHandlingObjectToName(whole); err == nil {
		c.forget(types.NamespacedName{Namespace: key.Namespace, Name: key.Name})
	}
}

func (c *core) vanish(last *v1alpha1.PodProtector) {
	key := client.ObjectKeyFromObject(last)
	c.cover(last)
	c.mu.Lock()
	k := c.known[key]
	k.gone = true
	c.known[key] = k
	c.mu.Unlock()
	c.log.Info("A protector is gone that nobody has released: removals that it would be charged for are refused until it is there again",
		"protector", key, "uid", last.UID)
	c.doubts.Add(key)
}

// doubtAgain is the interval at which the webhook checks again whether a lost protector was released.
const doubtAgain = time.Minute

func (c *core) forget(key types.NamespacedName) {
	c.conflicts.Delete(key)
	c.coverages.delete(key)
	c.metrics.refusals.forget(c.name, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, key)
}

// vanished returns the number of lost protectors: those in force although they no longer exist.
func (c *core) vanished() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := 0
	for _, k := range c.known {
		if k.gone {
			n++
		}
	}
	return n
}

func newDoubts() workqueue.TypedRateLimitingInterface[types.NamespacedName] {
	return workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](100*time.Millisecond, 5*time.Second))
}

// inquire finds out, until ctx ends, which lost protectors were released by a client: while the watch was interrupted,
// or at the moment at which they were deleted.
func (c *core) inquire(ctx context.Context) {
	defer context.AfterFunc(ctx, c.doubts.ShutDown)()
	for {
		key, shutdown := c.doubts.Get()
		if shutdown {
			return
		}
		if err := c.inquireOf(ctx, key); err != nil {
			c.doubts.AddRateLimited(key)
		} else {
			c.doubts.Forget(key)
		}
		c.doubts.Done(key)
	}
}

func (c *core) inquireOf(ctx context.Context, key types.NamespacedName) error {
	c.mu.RLock()
	k := c.known[key]
	c.mu.RUnlock()
	if !k.gone {
		return nil
	}
	released, err := clusters.WasReleased(ctx, c.protectors.Live, k.last)
	if err != nil {
		return err
	}
	c.mu.RLock()
	same := c.known[key].last == k.last
	c.mu.RUnlock()
	switch {
	case released && same:
		c.forget(key)
		c.log.Info("A protector that is gone was released", "protector", key)
	case same:
		c.doubts.AddAfter(key, doubtAgain)
	}
	return nil
}
