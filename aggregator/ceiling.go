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

// ceiling bounds the memory that one stream of objects of a cell can take. A compromised API server can send an endless number of
// objects, and the process that counts them also works for other cells. A stream that exceeds the ceiling fails and lists again, and its
// cell becomes stale.
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
	// podsCeiling suffices for about 400,000 pods of one cell with usual labels. Kubernetes supports 150,000 in a cluster.
	podsCeiling = 256 << 20
	// metadataCeiling is the limit for nodes, and for each kind of workload.
	metadataCeiling = 256 << 20
	// objectSize is the size of an object without its strings, in bytes.
	objectSize = 300
	// metadataPage is the page size of a list of metadata: the number of objects that are unstripped in memory at a time.
	metadataPage = 250
)

type openWatch = func(context.Context, metav1.ListOptions) (watch.Interface, error)

// pages wraps a paged list and counts its pods.
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

// watch wraps a watch, counts its objects, and ends it with an error when they exceed the ceiling.
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

// event returns an event, or the error event that ends its watch.
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

// listed counts an object of a list. All objects of a list are in memory until the list ends, including objects that it returns twice.
func (c *ceiling) listed(object metav1.Object) error { return c.put(object, sizeOf(object), true) }

// put records the size of an object. It replaces an earlier size, unless both is true: then both are in memory and it adds them. Size 0
// removes the object.
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

// sizeOf estimates the memory that is kept for an object, in bytes.
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

// listMetadata lists the metadata of objects page by page, as listStripped does for pods, and strips each page before it requests the
// next.
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
