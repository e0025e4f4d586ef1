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

// known is what the watch has shown of a protector.
type known struct {
	last *v1alpha1.PodProtector
	// gone tells that it is not there any more although nobody has released it. Its last state stays in force, as far as
	// memory reaches: nothing can be reserved with it, so that nothing that it would be charged for is admitted.
	gone bool
}

// newest returns the newest known state of a protector. One that vanished is returned as it was seen last.
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

// remembered returns the last state of a protector that is not there; nil when its end was asked for. It goes by what the
// watch has shown, so that one that was released a moment ago may be remembered until the watch has said so.
func (c *core) remembered(key types.NamespacedName) *v1alpha1.PodProtector {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if k, ok := c.known[key]; ok && clusters.Vanished(k.last) {
		return k.last
	}
	return nil
}

// withoutProtector answers what was asked of a protector that is not there.
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

// uncover takes in that a protector is not there any more. What it is told is its last state, or, when nobody watched, the last that
// was seen.
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

// doubtAgain is how soon it is looked again whether somebody has released a protector that is gone.
const doubtAgain = time.Minute

func (c *core) forget(key types.NamespacedName) {
	c.conflicts.Delete(key)
	c.coverages.delete(key)
	c.metrics.refusals.forget(c.name, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, key)
}

// vanished is the number of protectors that are in force although they are not there.
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

// inquire finds out, until ctx ends, which of the protectors that are gone somebody has released: while nobody watched, or at
// the moment in which they vanished.
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
