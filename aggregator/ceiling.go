package aggregator

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/pager"
)

// ceiling bounds the memory that one stream of objects of a cell can take. An API server that was broken into can show objects without end, and the process
// that counts them works for other cells too. A stream that exceeds the ceiling fails and lists again, and its cell becomes stale.
//
// It adds up estimates, in bytes: of all objects that the last list has shown, and of what the watches after it have added and deleted.
type ceiling struct {
	what  string
	limit int64
	sum   atomic.Int64
}

const (
	// podsCeiling suffices for some 400,000 pods of one cell, of usual labels. Kubernetes supports 150,000 in a cluster.
	podsCeiling = 256 << 20
	// metadataCeiling is that of nodes, and of each kind of workloads.
	metadataCeiling = 256 << 20
	// objectSize is what an object takes besides its texts.
	objectSize = 300
	// usualSize is the size of an object up to which its changes are not added up: an object replaces what was kept of it before.
	usualSize = 4 << 10
	// metadataPage is the number of objects whose metadata are in memory at a time while they are listed.
	metadataPage = 250
)

// openWatch opens a watch.
type openWatch = func(context.Context, metav1.ListOptions) (watch.Interface, error)

// pages adds up the pods of pages of a list.
func (c *ceiling) pages(list listPods) listPods {
	return func(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
		page, err := list(ctx, options)
		if err != nil {
			return nil, err
		}
		if options.Continue == "" {
			c.sum.Store(0)
		}
		for i := range page.Items {
			if err := c.add(sizeOf(&page.Items[i])); err != nil {
				return nil, err
			}
		}
		return page, nil
	}
}

// watch adds up what a watch shows, and ends it with an error when that is too much.
func (c *ceiling) watch(open openWatch) openWatch {
	return func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		if lists(options) {
			c.sum.Store(0)
		}
		w, err := open(ctx, options)
		if err != nil {
			return nil, err
		}
		return watch.Filter(w, func(event watch.Event) (watch.Event, bool) { return c.event(event), true }), nil
	}
}

// event is an event, or the error that ends its watch.
func (c *ceiling) event(event watch.Event) watch.Event {
	object, ok := event.Object.(metav1.Object)
	if !ok {
		return event
	}
	var size int64
	switch event.Type {
	case watch.Added:
		size = sizeOf(object)
	case watch.Modified:
		size = max(0, sizeOf(object)-usualSize)
	case watch.Deleted:
		size = -sizeOf(object)
	default:
		return event
	}
	if err := c.add(size); err != nil {
		return watch.Event{Type: watch.Error, Object: &apierrors.NewInternalError(err).ErrStatus}
	}
	return event
}

func (c *ceiling) add(size int64) error {
	if c.sum.Add(size) > c.limit {
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
	most.sum.Store(0)
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		page, err := list(ctx, options)
		if err := past.page(err); err != nil {
			return nil, err
		}
		for i := range page.Items {
			strip(&page.Items[i])
			if err := most.add(sizeOf(&page.Items[i])); err != nil {
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
