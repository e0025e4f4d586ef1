package play

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
)

// collector is the namespace controller and the garbage collector of the first core. It deletes the contents of a namespace that is
// terminating, and policies and Deployments whose owners are all deleted, one object after another.
type collector struct {
	store *apiserver.Store
	// policyFirst is how long it leaves the other objects of a namespace after its policy.
	policyFirst time.Duration
	stop        context.CancelFunc
	ended       chan struct{}
}

const (
	collectorName      = "collector"
	collectorIdleDelay = 2 * time.Second
)

func startCollector(env *environment) *collector {
	ctx, cancel := context.WithCancel(context.Background())
	c := &collector{store: env.cores[0].store, policyFirst: env.scenario.Brake.PolicyFirst, stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		if len(env.scenario.Brake.Sources) == 0 {
			return
		}
		pause := collectorIdleDelay
		for n := 0; sleepContext(ctx, pause); n++ {
			pause = collectorIdleDelay
			if !c.store.IsStopped() && c.collectOne() {
				pause = env.dice.Between(10*time.Millisecond, 200*time.Millisecond, fmt.Sprint(collectorName, n))
			}
		}
	}()
	return c
}

// collectOne deletes one object, and reports whether there was any.
func (c *collector) collectOne() bool {
	store := c.store
	spaces, _ := store.List(apiserver.Namespaces, "")
	for _, space := range spaces {
		if space.GetDeletionTimestamp() != nil && c.deleteNamespaceContent(space) {
			return true
		}
	}
	if len(spaces) == 0 {
		return false
	}
	owners, _ := store.List("applications", "")
	alive := map[types.UID]bool{}
	for _, owner := range owners {
		alive[owner.GetUID()] = true
	}
	for _, resource := range []string{apiserver.Policies, "deployments"} {
		objects, _ := store.List(resource, "")
		for _, o := range objects {
			if o.GetDeletionTimestamp() == nil && judge.AreOwnersDeleted(o, alive) {
				_, _ = store.Delete(resource, client.ObjectKeyFromObject(o), "", collectorName)
				return true
			}
		}
	}
	return false
}

// deleteNamespaceContent deletes one object of a namespace, or the namespace once it is empty. It reports whether it did: not while finalizers keep the
// remaining objects.
func (c *collector) deleteNamespaceContent(space client.Object) bool {
	store, left := c.store, false
	for _, resource := range []string{apiserver.Policies, "applications", "deployments", "podprotectors"} {
		if resource != apiserver.Policies && time.Since(space.GetDeletionTimestamp().Time) < c.policyFirst {
			return false
		}
		objects, _ := store.List(resource, space.GetName())
		for _, o := range objects {
			left = true
			if o.GetDeletionTimestamp() == nil {
				_, _ = store.Delete(resource, client.ObjectKeyFromObject(o), "", collectorName)
				return true
			}
		}
	}
	if left {
		return false
	}
	_, err := store.Update(apiserver.Namespaces, client.ObjectKeyFromObject(space), "", collectorName, func(o client.Object) error {
		o.SetFinalizers(nil)
		return nil
	})
	return err == nil
}
