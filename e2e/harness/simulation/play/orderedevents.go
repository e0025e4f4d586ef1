package play

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

// orderedEventManager is a manager whose informers deliver the events of one instant in the order of names. client-go delivers a streamed list in the
// order of a Go map, which does not depend on the seed.
type orderedEventManager struct{ manager.Manager }

// GetCache implements manager.Manager.
func (m orderedEventManager) GetCache() cache.Cache { return orderedCache{m.Manager.GetCache()} }

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
	return i.SharedIndexInformer.AddEventHandler(&orderedHandler{handler: to})
}

// orderedHandler collects the events of one instant.
type orderedHandler struct {
	handler toolscache.ResourceEventHandler

	mu     sync.Mutex
	queued []queuedEvent
}

type queuedEvent struct {
	name    string
	deliver func()
}

// OnAdd implements toolscache.ResourceEventHandler.
func (h *orderedHandler) OnAdd(object any, initial bool) {
	h.enqueue(object, func() { h.handler.OnAdd(object, initial) })
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (h *orderedHandler) OnUpdate(old, object any) {
	h.enqueue(object, func() { h.handler.OnUpdate(old, object) })
}

// OnDelete implements toolscache.ResourceEventHandler.
func (h *orderedHandler) OnDelete(object any) {
	h.enqueue(object, func() { h.handler.OnDelete(object) })
}

func (h *orderedHandler) enqueue(object any, deliver func()) {
	name, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		panic(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queued) == 0 {
		time.AfterFunc(time.Nanosecond, h.flush)
	}
	h.queued = append(h.queued, queuedEvent{name, deliver})
}

func (h *orderedHandler) flush() {
	h.mu.Lock()
	batch := h.queued
	h.queued = nil
	h.mu.Unlock()
	slices.SortStableFunc(batch, func(a, b queuedEvent) int { return cmp.Compare(a.name, b.name) })
	for _, event := range batch {
		event.deliver()
	}
}

// delayedReadManager is a manager for a controller that shares its process with another controller, which the same event wakes. Both would read one
// object at one instant and race for the same random draw.
type delayedReadManager struct{ manager.Manager }

// GetAPIReader implements manager.Manager.
func (m delayedReadManager) GetAPIReader() client.Reader {
	return delayedReader{m.Manager.GetAPIReader()}
}

type delayedReader struct{ client.Reader }

// Get implements client.Reader.
func (r delayedReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	time.Sleep(137 * time.Nanosecond)
	return r.Reader.Get(ctx, key, object, options...)
}
