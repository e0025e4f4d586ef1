package sharder

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// namespaces reads the labels of namespaces, from a cache or from the API server.
type namespaces struct{ cached, live client.Reader }

// labels returns the labels of a namespace; false if it does not exist. certain reads from the API server.
func (n namespaces) labels(ctx context.Context, name string, certain bool) (labels.Set, bool, error) {
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

// labelled provides the labels of namespaces.
type labelled interface {
	labels(ctx context.Context, namespace string, certain bool) (labels.Set, bool, error)
}

// territory is the set of namespaces of a ring. It keeps its answers while one page of objects is processed.
type territory struct {
	of       labelled
	selector labels.Selector
	asked    map[question]bool
}

// question is whether the selector matches a namespace, as read from the cache or from the API server.
type question struct {
	namespace string
	certain   bool
}

func (p *pass) territory() *territory {
	return &territory{of: p.namespaces, selector: p.selector, asked: map[question]bool{}}
}

// has reports whether objects of a namespace belong to the ring. Cluster-scoped objects always do. If the object is labelled, has confirms
// a negative answer with the API server: the cache may not have a new namespace or its labels yet, and that must not remove labels.
func (t *territory) has(ctx context.Context, namespace string, isLabelled bool) (bool, error) {
	if namespace == "" || t.selector.Empty() {
		return true, nil
	}
	chosen, err := t.ask(ctx, question{namespace, false})
	if err == nil && !chosen && isLabelled {
		chosen, err = t.ask(ctx, question{namespace, true})
	}
	return chosen, err
}

func (t *territory) ask(ctx context.Context, q question) (bool, error) {
	if known, ok := t.asked[q]; ok {
		return known, nil
	}
	have, found, err := t.of.labels(ctx, q.namespace, q.certain)
	if err != nil {
		return false, err
	}
	t.asked[q] = found && t.selector.Matches(have)
	return t.asked[q], nil
}
