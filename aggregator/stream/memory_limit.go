package stream

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

// MemoryLimit bounds the memory that one stream of objects of a cell can take. A compromised API server can send an endless number of
// objects, and the process that counts them also works for other cells. A stream that exceeds the ceiling fails and lists again, and its
// cell becomes stale.
//
// It estimates, in bytes, the objects that the last list and the watches after it have shown and not deleted.
type MemoryLimit struct {
	resource string
	limit    int64

	mu    sync.Mutex
	seed  maphash.Seed
	sizes map[uint64]int64 // by the hash of namespace and name
	sum   int64
}

// NewMemoryLimit creates a limit in bytes for the objects of a resource.
func NewMemoryLimit(resource string, limit int64) *MemoryLimit {
	return &MemoryLimit{resource: resource, limit: limit, seed: maphash.MakeSeed(), sizes: map[uint64]int64{}}
}

const (
	// PodsLimitBytes suffices for about 400,000 pods of one cell with usual labels. Kubernetes supports 150,000 in a cluster.
	PodsLimitBytes = 256 << 20
	// MetadataLimitBytes is the limit for nodes, and for each kind of workload.
	MetadataLimitBytes = 256 << 20
	// objectSize is the size of an object without its strings, in bytes.
	objectSize = 300
	// PageSize is the page size of a list: the number of whole objects that are in memory at a time.
	PageSize = 250
)

type openWatch = func(context.Context, metav1.ListOptions) (watch.Interface, error)

// WrapWatch wraps a watch, counts its objects, and ends it with an error when they exceed the ceiling.
func (m *MemoryLimit) WrapWatch(open openWatch) openWatch {
	return func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		if StartsWithList(options) {
			m.reset()
		}
		w, err := open(ctx, options)
		if err != nil {
			return nil, err
		}
		return clusters.FilterWatch(w, func(event watch.Event) (watch.Event, bool) { return m.checkEvent(event), true }), nil
	}
}

// checkEvent returns an event, or the error event that ends its watch.
func (m *MemoryLimit) checkEvent(checkEvent watch.Event) watch.Event {
	object, ok := checkEvent.Object.(metav1.Object)
	if !ok {
		return checkEvent
	}
	var err error
	switch checkEvent.Type {
	case watch.Added, watch.Modified:
		err = m.put(object, SizeOf(object), false)
	case watch.Deleted:
		err = m.put(object, 0, false)
	default:
	}
	if err != nil {
		return watch.Event{Type: watch.Error, Object: &apierrors.NewInternalError(err).ErrStatus}
	}
	return checkEvent
}

// reset must be called before a list.
func (m *MemoryLimit) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.sizes)
	m.sum = 0
}

// put records the size of an object. It replaces an earlier size, except in a list: all its objects are in memory until it ends, including those that
// it returns twice. Size 0 removes the object.
func (m *MemoryLimit) put(object metav1.Object, size int64, isListed bool) error {
	key := maphash.Comparable(m.seed, types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.sizes[key]
	if isListed {
		size += before
	}
	m.sum += size - before
	if size == 0 {
		delete(m.sizes, key)
	} else {
		m.sizes[key] = size
	}
	if m.sum > m.limit {
		return fmt.Errorf("the API server of the cell shows more %s than a cluster can have, of more than %d MiB: check that the kubeconfig leads to the right cluster", m.resource, m.limit>>20)
	}
	return nil
}

// SizeOf estimates the memory that is kept for an object, in bytes.
func SizeOf(object metav1.Object) int64 {
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

// List lists objects page by page. All pages have the version of the first, which is always the newest (rule 5). A reflector that lists again requests
// a version that is not older than its last one, but an API server serves that from its cache, which has no pages. read reads a page and strips its
// objects, so that only those of one page are whole at a time. It also returns the objects for the limit.
func List(
	ctx context.Context, options metav1.ListOptions, history *Continuity, limit *MemoryLimit,
	read func(context.Context, metav1.ListOptions) (runtime.Object, []metav1.Object, error),
) (runtime.Object, error) {
	history.beginList()
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		page, objects, err := read(ctx, options)
		if err := history.pageRead(err); err != nil {
			return nil, err
		}
		if options.Continue == "" {
			limit.reset()
		}
		for _, object := range objects {
			if err := limit.put(object, SizeOf(object), true); err != nil {
				return nil, err
			}
		}
		return page, nil
	})
	options.ResourceVersion, options.ResourceVersionMatch = "", ""
	options.Limit = PageSize
	listed, _, err := pages.List(ctx, options)
	history.endList(err)
	return listed, err
}

// ListMetadata lists the metadata of objects, stripped.
func ListMetadata(
	ctx context.Context, options metav1.ListOptions, history *Continuity, limit *MemoryLimit,
	list func(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error), strip func(*metav1.PartialObjectMetadata),
) (runtime.Object, error) {
	return List(ctx, options, history, limit, func(ctx context.Context, options metav1.ListOptions) (runtime.Object, []metav1.Object, error) {
		page, err := list(ctx, options)
		if err != nil {
			return nil, nil, err
		}
		objects := make([]metav1.Object, len(page.Items))
		for i := range page.Items {
			strip(&page.Items[i])
			objects[i] = &page.Items[i]
		}
		return page, objects, nil
	})
}
