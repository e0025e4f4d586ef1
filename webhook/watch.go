package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/selectorindex"
)

// Start reads the protectors of the core and keeps the index true until ctx ends. It never gives up: a webhook that
// ended because one core is away would refuse as well, but could not say why, nor begin at once when it is back.
func (c *core) Start(ctx context.Context) error {
	c.doubts = newDoubts() // it has a goroutine of its own, which must end
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
		c.inquire(ctx)
	}
	return nil // an error is the end of ctx
}

// NeedLeaderElection is false: all replicas answer.
func (c *core) NeedLeaderElection() bool { return false }

func (c *core) watch(ctx context.Context) (toolscache.ResourceEventHandlerRegistration, error) {
	informer, err := c.cache.GetInformer(ctx, &v1alpha1.PodProtector{})
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
		},
		DeleteFunc: func(obj any) { c.uncover(obj) },
	})
}

// sameCoverage tells whether two states of a protector cover the same pods. Most updates are of the status. The
// generation does not tell: in a core that was restored from a backup, the same one comes a second time.
func sameCoverage(a, b any) bool {
	p, ok := a.(*v1alpha1.PodProtector)
	q, okToo := b.(*v1alpha1.PodProtector)
	return ok && okToo && selectorindex.SameCoverage(&p.Spec, &q.Spec)
}

func (c *core) cover(obj any) {
	p, ok := obj.(*v1alpha1.PodProtector)
	if !ok {
		return
	}
	// Of a malformed selector it is unknown which pods it means: it means all that it may, and refuses them.
	coverage, _ := selectorindex.CoverageOf(&p.Spec, nil)
	key := client.ObjectKeyFromObject(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index.Set(key, p.Namespace, coverage.Selector)
	c.known[key] = known{coverage: coverage, last: p}
}

// see notes a state of a protector that covers the same pods as the last one.
func (c *core) see(obj any) {
	p, ok := obj.(*v1alpha1.PodProtector)
	if !ok {
		return
	}
	key := client.ObjectKeyFromObject(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[key] = known{coverage: c.known[key].coverage, last: p}
}

// covering returns the protectors that cover a pod with those labels.
func (c *core) covering(namespace string, labels map[string]string) []types.NamespacedName {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.DeleteFunc(c.index.Query(namespace, labels, nil), func(key types.NamespacedName) bool {
		return c.known[key].coverage.Exempts(labels)
	})
}
