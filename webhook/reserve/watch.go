package reserve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Start reads the protectors of the core and keeps the index up to date until ctx ends. It retries without limit. If
// the webhook exited because one core is unreachable, the API server would refuse removals as well, but without the
// reason, and the webhook could not resume at once when the core is back.
func (c *Core) Start(ctx context.Context) error {
	defer c.States.LostQueue.ShutDown()
	defer c.reserver.escrows.close()
	retry := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 6, Cap: 3 * time.Second}
	var registration toolscache.ResourceEventHandlerRegistration
	err := retry.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		var err error
		if registration, err = c.watch(ctx); err != nil && ctx.Err() == nil {
			c.log.Error(err, "Could not watch PodProtectors, refusing all removals")
		}
		return err == nil, nil
	})
	if err == nil && toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		c.Synced.Store(true)
		c.log.Info("Read PodProtectors of core cluster")
		var flushing sync.WaitGroup
		flushing.Go(func() { c.Pending.FlushUntilDone(ctx, c.FlushPending) })
		c.States.RecheckLost(ctx)
		flushing.Wait()
	}
	return nil // err is non-nil only because ctx ended
}

// NeedLeaderElection returns false: all replicas answer.
func (c *Core) NeedLeaderElection() bool { return false }

func (c *Core) watch(ctx context.Context) (toolscache.ResourceEventHandlerRegistration, error) {
	// Get the informer before protectors are read. Otherwise no handler would see a protector that vanished between the
	// first list and the registration of the first handler.
	informer, err := c.cache.GetInformer(ctx, &v1alpha1.PodProtector{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch PodProtectors: %w", err)
	}
	return informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.States.SetCoverage(obj) },
		UpdateFunc: func(old, obj any) {
			if sameCoverage(old, obj) {
				c.States.Set(obj)
			} else {
				c.States.SetCoverage(obj)
			}
			c.onChange()
		},
		DeleteFunc: func(obj any) {
			c.States.HandleDelete(obj)
			c.onChange()
		},
	})
}
