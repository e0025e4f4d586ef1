package sharder

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// namespaces knows their labels: by a cache, and for certain.
type namespaces struct{ cached, live client.Reader }

// labels are those of a namespace; false when there is none.
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

// labelled knows the labels of namespaces.
type labelled interface {
	labels(ctx context.Context, namespace string, certain bool) (labels.Set, bool, error)
}

// territory is the namespaces of a ring, as they are found to be while a page of objects is looked at.
type territory struct {
	of       labelled
	selector labels.Selector
	asked    map[question]bool
}

// question is whether a namespace is chosen: by a cache, or for certain.
type question struct {
	namespace string
	certain   bool
}

func (p *pass) territory() *territory {
	return &territory{of: p.namespaces, selector: p.selector, asked: map[question]bool{}}
}

// has tells whether objects of a namespace belong to the ring. Those of cluster scope always do. A namespace that a cache does not know,
// or knows by other labels, may have just come: nothing is taken off an object for that.
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
