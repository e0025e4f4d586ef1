package aggregator

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/pager"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// ceiling bounds the memory that one stream of objects of a cell can take. A compromised API server can show objects without end, and the process
// that counts them works for other cells too. A stream that exceeds the ceiling fails and lists again, and its cell becomes stale.
//
// It estimates, in bytes, the objects that the last list and the watches after it have shown and not deleted.
type ceiling struct {
	what  string
	limit int64

	mu    sync.Mutex
	seed  maphash.Seed
	sizes map[uint64]int64 // by the hash of namespace and name
	sum   int64
}

func newCeiling(what string, limit int64) *ceiling {
	return &ceiling{what: what, limit: limit, seed: maphash.MakeSeed(), sizes: map[uint64]int64{}}
}

const (
	// podsCeiling suffices for some 400,000 pods of one cell, of usual labels. Kubernetes supports 150,000 in a cluster.
	podsCeiling = 256 << 20
	// metadataCeiling is that of nodes, and of each kind of workloads.
	metadataCeiling = 256 << 20
	// objectSize is what an object takes besides its texts.
	objectSize = 300
	// metadataPage is the number of objects whose metadata are in memory at a time while they are listed.
	metadataPage = 250
)

// openWatch opens a watch.
type openWatch = func(context.Context, metav1.ListOptions) (watch.Interface, error)

// pages counts the pods of the pages of a list.
func (c *ceiling) pages(list listPods) listPods {
	return func(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
		page, err := list(ctx, options)
		if err != nil {
			return nil, err
		}
		if options.Continue == "" {
			c.reset()
		}
		for i := range page.Items {
			if err := c.listed(&page.Items[i]); err != nil {
				return nil, err
			}
		}
		return page, nil
	}
}

// watch counts the objects of a watch, and ends the watch with an error when they exceed the ceiling.
func (c *ceiling) watch(open openWatch) openWatch {
	return func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		if lists(options) {
			c.reset()
		}
		w, err := open(ctx, options)
		if err != nil {
			return nil, err
		}
		return clusters.FilterWatch(w, func(event watch.Event) (watch.Event, bool) { return c.event(event), true }), nil
	}
}

// event returns an event, or the error that ends its watch.
func (c *ceiling) event(event watch.Event) watch.Event {
	object, ok := event.Object.(metav1.Object)
	if !ok {
		return event
	}
	var err error
	switch event.Type {
	case watch.Added, watch.Modified:
		err = c.put(object, sizeOf(object), false)
	case watch.Deleted:
		err = c.put(object, 0, false)
	default:
	}
	if err != nil {
		return watch.Event{Type: watch.Error, Object: &apierrors.NewInternalError(err).ErrStatus}
	}
	return event
}

// reset must be called before a list.
func (c *ceiling) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.sizes)
	c.sum = 0
}

// listed counts an object of a list. All objects of a list are in memory until its end, also those that it shows twice.
func (c *ceiling) listed(object metav1.Object) error { return c.put(object, sizeOf(object), true) }

// put records the size of an object, which replaces an earlier one unless both are in memory. A size of 0 forgets the object.
func (c *ceiling) put(object metav1.Object, size int64, both bool) error {
	key := maphash.Comparable(c.seed, types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.sizes[key]
	if both {
		size += before
	}
	c.sum += size - before
	if size == 0 {
		delete(c.sizes, key)
	} else {
		c.sizes[key] = size
	}
	if c.sum > c.limit {
		return fmt.Errorf("the API server of the cell shows more %s than a cluster can have, of more than %d MiB: check that the kubeconfig leads to the right cluster", c.what, c.limit>>20)
	}
	return nil
}

// sizeOf estimates what is kept of an object, in bytes.
func sizeOf(object metav1.Object) int64 {
	size := objectSize + len(object.GetNamespace()) + len(object.GetName()) + len(object.GetUID())
	for key, value := range object.GetLabels() {
		size += len(key) + len(value)
	}
	for _, owner := range object.GetOwnerReferences() {
		size += len(owner.APIVersion) + len(owner.Kind) + len(owner.Name) + len(owner.UID)
	}
	if pod, ok := object.(*corev1.Pod); ok {
		size += len(pod.Spec.NodeName)
	}
	return int64(size)
}

// listMetadata lists the metadata of objects page by page, as listStripped does pods, and strips each page before it asks for the next.
func listMetadata(
	ctx context.Context, options metav1.ListOptions, past *continuity, most *ceiling,
	list func(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error), strip func(*metav1.PartialObjectMetadata),
) (runtime.Object, error) {
	past.listing()
	most.reset()
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		page, err := list(ctx, options)
		if err := past.page(err); err != nil {
			return nil, err
		}
		for i := range page.Items {
			strip(&page.Items[i])
			if err := most.listed(&page.Items[i]); err != nil {
				return nil, err
			}
		}
		return page, nil
	})
	options.ResourceVersion, options.ResourceVersionMatch = "", ""
	options.Limit = metadataPage
	listed, _, err := pages.List(ctx, options)
	past.listed(err)
	return listed, err
}
