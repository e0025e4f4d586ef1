package sharder

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// namespaceReader reads the labels of namespaces, from a cache or from the API server.
type namespaceReader struct{ cached, live client.Reader }

// labels returns the labels of a namespace; false if it does not exist. certain reads from the API server.
func (n namespaceReader) labels(ctx context.Context, name string, certain bool) (labels.Set, bool, error) {
	reader := n.cached
	if certain {
		reader = n.live
	}
	namespace := clusters.EmptyNamespace()
	err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read namespace %s: %w", name, err)
	}
	return namespace.Labels, true, nil
}

// namespaceLabeler provides the labels of namespaces.
type namespaceLabeler interface {
	labels(ctx context.Context, namespace string, certain bool) (labels.Set, bool, error)
}

// namespaceFilter is the set of namespaces of a ring. It keeps its answers while one page of objects is processed.
type namespaceFilter struct {
	reader   namespaceLabeler
	selector labels.Selector
	answers  map[filterKey]bool
}

// filterKey is whether the selector matches a namespace, as read from the cache or from the API server.
type filterKey struct {
	namespace string
	live      bool
}

// includes reports whether objects of a namespace belong to the ring. Cluster-scoped objects always do. If the object is labeled, has confirms
// a negative answer with the API server: the cache may not have a new namespace or its labels yet, and that must not remove labels.
func (t *namespaceFilter) includes(ctx context.Context, namespace string, isLabeled bool) (bool, error) {
	if namespace == "" || t.selector.Empty() {
		return true, nil
	}
	isSelected, err := t.lookUp(ctx, filterKey{namespace, false})
	if err == nil && !isSelected && isLabeled {
		isSelected, err = t.lookUp(ctx, filterKey{namespace, true})
	}
	return isSelected, err
}

func (t *namespaceFilter) lookUp(ctx context.Context, q filterKey) (bool, error) {
	if exists, ok := t.answers[q]; ok {
		return exists, nil
	}
	have, found, err := t.reader.labels(ctx, q.namespace, q.live)
	if err != nil {
		return false, err
	}
	t.answers[q] = found && t.selector.Matches(have)
	return t.answers[q], nil
}
