package scheduling

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
)

// pruneInterval is how often namespaces checks whether the watched clusters still belong to cells.
const pruneInterval = time.Minute

// namespaceLabels provides the labels of namespaces in the clusters of cells. It starts to watch a cluster with the first
// request for it. It reads a namespace that the watch has not shown yet.
type namespaceLabels struct {
	// config returns the client configuration of a cell. The pointer stays the same for as long as the connection does.
	config func(cell string) (*rest.Config, error)

	mu sync.Mutex
	// running ends with the process; nil before Start.
	running context.Context //nolint:containedctx // requests start watches, which outlive them
	watches map[string]*watch
}

// watch is a watch of the namespaces of a cluster.
type watch struct {
	config *rest.Config
	client metadata.Interface
	// store holds their names and labels; nil when they are not watched.
	store toolscache.Store
	stop  context.CancelFunc
}

func newNamespaceLabels(config func(cell string) (*rest.Config, error)) *namespaceLabels {
	return &namespaceLabels{config: config, watches: map[string]*watch{}}
}

// NeedLeaderElection returns false: all replicas answer.
func (n *namespaceLabels) NeedLeaderElection() bool { return false }

// Start keeps the requested watches running until ctx ends.
func (n *namespaceLabels) Start(ctx context.Context) error {
	n.mu.Lock()
	n.running = ctx
	n.mu.Unlock()
	ticker := time.NewTicker(pruneInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			n.prune()
		}
	}
}

// prune stops the watches of clusters that no longer belong to a cell.
func (n *namespaceLabels) prune() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for cell, w := range n.watches {
		if config, err := n.config(cell); err != nil || config != w.config {
			w.stop()
			delete(n.watches, cell)
		}
	}
}

// labelsOf returns the labels of a namespace in the cluster of a cell.
func (n *namespaceLabels) labelsOf(ctx context.Context, cell, namespace string) (map[string]string, error) {
	w, err := n.watchOf(cell)
	if err != nil {
		return nil, fmt.Errorf("reach cell %s: %w", cell, err)
	}
	if w.store != nil {
		if cached, ok, err := w.store.GetByKey(namespace); err == nil && ok {
			if partial, ok := cached.(*metav1.PartialObjectMetadata); ok {
				return partial.Labels, nil
			}
		}
	}
	read, err := w.client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read namespace %s of cell %s: %w", namespace, cell, err)
	}
	return read.Labels, nil
}

// watchOf returns the watch of a cell's cluster. It starts one if there is none.
func (n *namespaceLabels) watchOf(cell string) (*watch, error) {
	config, err := n.config(cell)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if w := n.watches[cell]; w != nil && w.config == config {
		return w, nil
	} else if w != nil {
		w.stop()
		delete(n.watches, cell)
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	w := &watch{config: config, client: client}
	if n.running == nil || n.running.Err() != nil {
		return w, nil
	}
	if err := w.start(n.running); err != nil {
		return nil, err
	}
	n.watches[cell] = w
	return w, nil
}

func (w *watch) start(ctx context.Context) error {
	resource := corev1.SchemeGroupVersion.WithResource("namespaces")
	informer := metadatainformer.NewFilteredMetadataInformer(w.client, resource, "", 0, toolscache.Indexers{}, nil).Informer()
	if err := informer.SetTransform(keepOnlyLabels); err != nil {
		return fmt.Errorf("watch namespaces: %w", err)
	}
	ctx, w.stop = context.WithCancel(ctx)
	w.store = informer.GetStore()
	go informer.RunWithContext(ctx)
	return nil
}

// keepOnlyLabels drops the unused metadata.
func keepOnlyLabels(object any) (any, error) {
	if full, ok := object.(*metav1.PartialObjectMetadata); ok {
		full.ObjectMeta = metav1.ObjectMeta{Name: full.Name, UID: full.UID, ResourceVersion: full.ResourceVersion, Labels: full.Labels}
	}
	return object, nil
}
