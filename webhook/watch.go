package webhook

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Start reads the protectors of the core and keeps the index up to date until ctx ends. It retries without limit. If
// the webhook exited because one core is unreachable, the API server would refuse removals as well, but without the
// reason, and the webhook could not resume at once when the core is back.
func (c *core) Start(ctx context.Context) error {
	c.doubts = newDoubts() // created here because its goroutine must end with Start
	defer c.doubts.ShutDown()
	retry := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 6, Cap: 3 * time.Second}
	var watched toolscache.ResourceEventHandlerRegistration
	err := retry.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		var err error
		if watched, err = c.watch(ctx); err != nil && ctx.Err() == nil {
			c.log.Error(err, "A core cluster cannot be read yet, so all removals are refused")
		}
		return err == nil, nil
	})
	if err == nil && toolscache.WaitForCacheSync(ctx.Done(), watched.HasSynced) {
		c.read.Store(true)
		c.log.Info("The protectors of a core cluster are read")
		var repaying sync.WaitGroup
		repaying.Go(func() { c.repay(ctx) })
		c.inquire(ctx)
		repaying.Wait()
	}
	return nil // err is non-nil only because ctx ended
}

// NeedLeaderElection returns false: all replicas answer.
func (c *core) NeedLeaderElection() bool { return false }

func (c *core) watch(ctx context.Context) (toolscache.ResourceEventHandlerRegistration, error) {
	// Get the informer before protectors are read. Otherwise no handler would see a protector that vanished between the
	// first list and the registration of the first handler.
	informer, err := c.cache.GetInformer(ctx, &v1alpha1.PodProtector{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch PodProtectors: %w", err)
	}
	return informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.cover(obj) },
		UpdateFunc: func(old, obj any) {
			if sameCoverage(old, obj) {
				c.see(obj)
			} else {
				c.cover(obj)
			}
			c.changed()
		},
		DeleteFunc: func(obj any) {
			c.uncover(obj)
			c.changed()
		},
	})
}

func (c *core) cover(obj any) {
	if p, ok := obj.(*v1alpha1.PodProtector); ok {
		c.coverages.set(p)
		c.see(p)
	}
}

// see records a state of a protector.
func (c *core) see(obj any) {
	p, ok := obj.(*v1alpha1.PodProtector)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[types.NamespacedName]known{}
	}
	c.known[client.ObjectKeyFromObject(p)] = known{last: p}
}
