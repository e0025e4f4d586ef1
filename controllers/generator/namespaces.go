package generator

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// candidate returns the properties of a source that policies use.
func (k *Kinds) candidate(ctx context.Context, ref policy.Ref, source client.Object, policies []*policy.Policy) (policy.Candidate, error) {
	c := policy.Candidate{Ref: ref, Labels: source.GetLabels()}
	if !slices.ContainsFunc(policies, func(p *policy.Policy) bool { return p.Namespaces != nil }) {
		return c, nil
	}
	var err error
	c.NamespaceLabels, err = k.watches.namespaceLabels(ctx, ref.Namespace)
	return c, err
}

// watchNamespaces starts to watch the labels of namespaces.
func (k *Kinds) watchNamespaces() error {
	return k.watches.watchAuxiliary(namespaceResource(), func(namespace *metav1.PartialObjectMetadata) {
		ctx := k.watches.ctx
		_ = k.forEachSource(ctx, namespace.Name, k.watchedKinds(), func(ref policy.Ref, _ client.Object) error {
			k.watches.enqueue(ref, 0)
			return nil
		})
		k.watches.notifyChange(namespace.Name)
	})
}

// namespaceLabels returns the labels of a namespace, from its watch or else from the API server.
func (w *kindWatches) namespaceLabels(ctx context.Context, namespace string) (map[string]string, error) {
	w.mu.Lock()
	watched := w.auxiliary[namespaceResource()]
	w.mu.Unlock()
	if watched != nil && watched.informer.HasSynced() {
		stored, exists, _ := watched.informer.GetStore().GetByKey(namespace)
		if object, ok := stored.(*metav1.PartialObjectMetadata); exists && ok {
			return object.Labels, nil
		}
	}
	object, err := w.metadata.Resource(namespaceResource()).Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get the labels of namespace %s: %w", namespace, err)
	}
	return object.Labels, nil
}

func namespaceResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}
