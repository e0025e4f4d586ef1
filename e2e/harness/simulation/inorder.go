package simulation

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// inOrder is a manager whose informers deliver the events of one instant in the order of names. client-go delivers a streamed list in the
// order of a Go map, which does not depend on the seed.
type inOrder struct{ manager.Manager }

// GetCache implements manager.Manager.
func (m inOrder) GetCache() cache.Cache { return orderedCache{m.Manager.GetCache()} }

type orderedCache struct{ cache.Cache }

// GetInformer implements cache.Informers.
func (c orderedCache) GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, object, options...)
	if shared, ok := informer.(toolscache.SharedIndexInformer); ok {
		return orderedInformer{shared}, err
	}
	return informer, err
}

type orderedInformer struct{ toolscache.SharedIndexInformer }

// AddEventHandler implements cache.Informer. When the registration has synced, the events of the last instant may not have been delivered
// yet.
func (i orderedInformer) AddEventHandler(to toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(&orderedHandler{to: to})
}

// orderedHandler collects the events of one instant.
type orderedHandler struct {
	to toolscache.ResourceEventHandler

	mu   sync.Mutex
	told []told
}

type told struct {
	name string
	tell func()
}

// OnAdd implements toolscache.ResourceEventHandler.
func (h *orderedHandler) OnAdd(object any, initial bool) {
	h.gather(object, func() { h.to.OnAdd(object, initial) })
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (h *orderedHandler) OnUpdate(old, object any) {
	h.gather(object, func() { h.to.OnUpdate(old, object) })
}

// OnDelete implements toolscache.ResourceEventHandler.
func (h *orderedHandler) OnDelete(object any) {
	h.gather(object, func() { h.to.OnDelete(object) })
}

func (h *orderedHandler) gather(object any, tell func()) {
	name, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		panic(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.told) == 0 {
		time.AfterFunc(time.Nanosecond, h.pass)
	}
	h.told = append(h.told, told{name, tell})
}

func (h *orderedHandler) pass() {
	h.mu.Lock()
	all := h.told
	h.told = nil
	h.mu.Unlock()
	slices.SortStableFunc(all, func(a, b told) int { return cmp.Compare(a.name, b.name) })
	for _, one := range all {
		one.tell()
	}
}

// apart is a manager for a controller that shares its process with another controller, which the same event wakes. Both would read one
// object at one instant and race for the same random draw.
type apart struct{ manager.Manager }

// GetAPIReader implements manager.Manager.
func (m apart) GetAPIReader() client.Reader { return lateReader{m.Manager.GetAPIReader()} }

type lateReader struct{ client.Reader }

// Get implements client.Reader.
func (r lateReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	time.Sleep(137 * time.Nanosecond)
	return r.Reader.Get(ctx, key, object, options...)
}
