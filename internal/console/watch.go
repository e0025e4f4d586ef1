package console

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
)

// cacheOptions returns the options of a core's cache. It drops the pod identities of merged reservations, which the console does
// not use and which can be long.
func cacheOptions() cache.Options {
	options := clusters.CacheOptions()
	options.DefaultTransform = func(object any) (any, error) {
		if o, ok := object.(client.Object); ok {
			o.SetManagedFields(nil)
		}
		if p, ok := object.(*v1alpha1.PodProtector); ok {
			for i := range p.Status.Cells {
				buckets := p.Status.Cells[i].AdmissionHistory.Buckets
				for j := range buckets {
					buckets[j].PodUIDHashes, buckets[j].PodTimes, buckets[j].Containers = nil, nil, nil
				}
			}
		}
		return object, nil
	}
	return options
}

// addEventHandlers fills the store from the informers of a cache until ctx ends. The store has all objects when all results report true.
func (s *store) addEventHandlers(ctx context.Context, from cache.Cache) (synced []toolscache.InformerSynced, err error) {
	protectors, err := from.GetInformer(ctx, &v1alpha1.PodProtector{})
	if err != nil {
		return nil, fmt.Errorf("watch PodProtectors: %w", err)
	}
	cells, err := from.GetInformer(ctx, &v1alpha1.Cell{})
	if err != nil {
		return nil, fmt.Errorf("watch Cells: %w", err)
	}
	onProtector, err := protectors.AddEventHandler(untilEnd(ctx, s.onProtector, func(o any) { s.deleteProtector(nameOf(o)) }))
	if err != nil {
		return nil, fmt.Errorf("handle events of PodProtectors: %w", err)
	}
	onCell, err := cells.AddEventHandler(untilEnd(ctx, func(o any) { s.onCell(from, o) }, func(o any) { s.deleteCell(nameOf(o).Name) }))
	if err != nil {
		return nil, fmt.Errorf("handle events of Cells: %w", err)
	}
	return []toolscache.InformerSynced{onProtector.HasSynced, onCell.HasSynced}, nil
}

// untilEnd returns a handler that ignores events after the end of ctx: those of an old connection must not replace newer data.
func untilEnd(ctx context.Context, set, deleted func(o any)) toolscache.ResourceEventHandler {
	unlessEnded := func(do func(any), o any) {
		if ctx.Err() == nil {
			do(o)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { unlessEnded(set, o) }, UpdateFunc: func(_, o any) { unlessEnded(set, o) }, DeleteFunc: func(o any) { unlessEnded(deleted, o) },
	}
}

// dropDeleted drops the protectors and cells that a filled cache does not have: they were deleted during an outage.
func (s *store) dropDeleted(ctx context.Context, from client.Reader) error {
	protectors, cells := &v1alpha1.PodProtectorList{}, &v1alpha1.CellList{}
	if err := errors.Join(from.List(ctx, protectors, client.UnsafeDisableDeepCopy), from.List(ctx, cells, client.UnsafeDisableDeepCopy)); err != nil {
		return err
	}
	exists, existsCell := map[types.NamespacedName]bool{}, map[string]bool{}
	for i := range protectors.Items {
		exists[client.ObjectKeyFromObject(&protectors.Items[i])] = true
	}
	for i := range cells.Items {
		existsCell[cells.Items[i].Name] = true
	}
	s.update(func(now time.Time) {
		for key := range s.rows {
			if !exists[key] {
				delete(s.rows, key)
				s.histories.MarkDeleted(key, now)
			}
		}
		maps.DeleteFunc(s.heartbeats, func(cell string, _ heartbeat) bool { return !existsCell[cell] })
	})
	return nil
}

func (s *store) onProtector(o any) {
	if p, ok := o.(*v1alpha1.PodProtector); ok {
		s.setProtector(p)
	}
}

func (s *store) onCell(from client.Reader, o any) {
	if cell, ok := o.(*v1alpha1.Cell); ok && s.setHeartbeat(cell) {
		s.recount(from)
	}
}

// recount recomputes all protectors.
func (s *store) recount(from client.Reader) {
	list := &v1alpha1.PodProtectorList{}
	if err := from.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache has no protectors yet: their events follow
	}
	for i := range list.Items {
		s.setProtector(&list.Items[i])
	}
}

// nameOf returns the name of a deleted object, including one whose final state is unknown.
func nameOf(o any) types.NamespacedName {
	if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	if object, ok := o.(client.Object); ok {
		return client.ObjectKeyFromObject(object)
	}
	return types.NamespacedName{}
}

// denials watches the events of protectors. It keeps only what the store keeps, because there can be very many events.
type denials struct {
	client kubernetes.Interface
	store  *store
}

// run watches until ctx ends.
func (d *denials) run(ctx context.Context) {
	only := func(options *metav1.ListOptions) { options.FieldSelector = "regarding.kind=PodProtector" }
	source := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			only(&options)
			return d.client.EventsV1().Events("").List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			only(&options)
			return d.client.EventsV1().Events("").Watch(ctx, options)
		},
	}
	toolscache.NewReflector(clusters.Retrying(source), &eventsv1.Event{}, d, 0).RunWithContext(ctx)
}

// Add implements toolscache.ReflectorStore.
func (d *denials) Add(object any) error {
	if e, ok := object.(*eventsv1.Event); ok {
		if told, ok := denial.ParseEvent("", e); ok {
			d.store.addDenial(types.NamespacedName{Namespace: told.Namespace, Name: told.Protector}, told)
		}
	}
	return nil
}

// Update implements toolscache.ReflectorStore.
func (d *denials) Update(object any) error { return d.Add(object) }

// Delete implements toolscache.ReflectorStore. The store expires denials itself.
func (*denials) Delete(any) error { return nil }

// Replace implements toolscache.ReflectorStore.
func (d *denials) Replace(all []any, _ string) error {
	for _, object := range all {
		_ = d.Add(object) // Add never fails
	}
	return nil
}

// Resync implements toolscache.ReflectorStore.
func (*denials) Resync() error { return nil }
