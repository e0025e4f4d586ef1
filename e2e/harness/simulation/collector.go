package simulation

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// collector is the namespace controller and the garbage collector of the first core. It deletes the contents of a namespace that is
// terminating, and Deployments whose owners are all deleted, one object after another.
type collector struct {
	store *apiserver.Store
	stop  context.CancelFunc
	ended chan struct{}
}

const (
	collectorName      = "collector"
	collectorIdleDelay = 2 * time.Second
)

func startCollector(env *environment) *collector {
	ctx, cancel := context.WithCancel(context.Background())
	c := &collector{store: env.cores[0].store, stop: cancel, ended: make(chan struct{})}
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
	deployments, _ := store.List("deployments", "")
	for _, d := range deployments {
		if d.GetDeletionTimestamp() == nil && areOwnersDeleted(d, alive) {
			_, _ = store.Delete("deployments", client.ObjectKeyFromObject(d), "", collectorName)
			return true
		}
	}
	return false
}

func areOwnersDeleted(d client.Object, alive map[types.UID]bool) bool {
	for _, owner := range d.GetOwnerReferences() {
		if alive[owner.UID] {
			return false
		}
	}
	return len(d.GetOwnerReferences()) > 0
}

// deleteNamespaceContent deletes one object of a namespace, or the namespace once it is empty. It reports whether it did: not while finalizers keep the
// remaining objects.
func (c *collector) deleteNamespaceContent(space client.Object) bool {
	store, left := c.store, false
	for _, resource := range []string{"applications", "deployments", "podprotectors"} {
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
