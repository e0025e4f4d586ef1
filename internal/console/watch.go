package console

import (
	"context"
	"fmt"

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
	"github.com/breakwater-k8s/breakwater/internal/console/model"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
)

// CacheOptions returns the options of the console's cache. It drops the pod identities of merged reservations, which the console does
// not use and which can be long.
func CacheOptions() cache.Options {
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

// addEventHandlers fills the store from the informers of a cache.
func (s *store) addEventHandlers(ctx context.Context, from cache.Cache) error {
	s.reader = from
	protectors, err := from.GetInformer(ctx, &v1alpha1.PodProtector{})
	if err != nil {
		return fmt.Errorf("watch PodProtectors: %w", err)
	}
	cells, err := from.GetInformer(ctx, &v1alpha1.Cell{})
	if err != nil {
		return fmt.Errorf("watch Cells: %w", err)
	}
	_, err = protectors.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { s.onProtector(o) }, UpdateFunc: func(_, o any) { s.onProtector(o) },
		DeleteFunc: func(o any) { s.deleteProtector(nameOf(o)) },
	})
	if err != nil {
		return fmt.Errorf("handle events of PodProtectors: %w", err)
	}
	_, err = cells.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { s.onCell(o) }, UpdateFunc: func(_, o any) { s.onCell(o) },
		DeleteFunc: func(o any) { s.deleteCell(nameOf(o).Name) },
	})
	if err != nil {
		return fmt.Errorf("handle events of Cells: %w", err)
	}
	return nil
}

func (s *store) onProtector(o any) {
	if p, ok := o.(*v1alpha1.PodProtector); ok {
		s.setProtector(p)
	}
}

func (s *store) onCell(o any) {
	if cell, ok := o.(*v1alpha1.Cell); ok && s.setHeartbeat(cell) {
		s.recount()
	}
}

// recount recomputes all protectors.
func (s *store) recount() {
	list := &v1alpha1.PodProtectorList{}
	if err := s.reader.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil {
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
	reader *denial.Reader
}

// Start implements manager.Runnable.
func (d *denials) Start(ctx context.Context) error {
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
	return nil
}

// Add implements toolscache.ReflectorStore.
func (d *denials) Add(object any) error {
	if e, ok := object.(*eventsv1.Event); ok {
		if key, told, ok := model.DenialOf(d.reader, e); ok {
			d.store.addDenial(key, told)
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
