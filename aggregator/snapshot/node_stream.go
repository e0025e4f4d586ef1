package snapshot

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/aggregator/stream"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// nodesBackoff is the retry backoff of the watch of nodes. The watch may be forbidden until the user upgrades an installation.
var nodesBackoff = wait.Backoff{ //nolint:gochecknoglobals // effectively a constant
	Duration: 200 * time.Millisecond, Factor: 2, Cap: 10 * time.Second, Steps: 8, Jitter: 0.5,
}

// WatchNodes watches the metadata of the cell's nodes while some protector uses a label of them, until ctx ends. When a protector
// starts using another label, it lists all nodes again.
func (s *Snapshot) WatchNodes(ctx context.Context, source metadata.Interface, log logr.Logger) {
	used := s.nodes
	stop, watched := func() {}, 0
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-used.labelsChanged:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(ownership.NotificationDelay):
		}
		ownership.DiscardNotification(used.labelsChanged)
		labels, requests := used.usedLabels()
		if len(labels) > 0 && requests == watched {
			continue
		}
		stop()
		stop, watched = func() {}, requests
		if len(labels) == 0 {
			used.clearProblem()
			continue
		}
		store := &nodeStore{nodes: used, source: source.Resource(corev1.SchemeGroupVersion.WithResource("nodes")), labels: labels, log: log}
		watching, cancel := context.WithCancel(ctx)
		var stream sync.WaitGroup
		stream.Go(func() { store.run(watching) })
		stop = func() {
			cancel()
			stream.Wait()
		}
	}
}

// nodeStore is the store behind one watch of nodes. It keeps some of their labels.
type nodeStore struct {
	*nodes
	source  metadata.ResourceInterface
	labels  []string
	history stream.Continuity
	limit   *stream.MemoryLimit
	log     logr.Logger
}

// run watches until ctx ends. The store logs each problem once itself; the reflector would log every attempt.
func (s *nodeStore) run(ctx context.Context) {
	silent := logr.Discard()
	s.history, s.limit = stream.Continuity{Now: time.Now}, stream.NewMemoryLimit("nodes", stream.MetadataLimitBytes)
	source := &cache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}
	cache.NewReflectorWithOptions(source, &metav1.PartialObjectMetadata{}, s, cache.ReflectorOptions{
		Name: "nodes", Logger: &silent, Backoff: &nodesBackoff,
	}).RunWithContext(klog.NewContext(ctx, silent))
}

func (s *nodeStore) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	strip := func(node *metav1.PartialObjectMetadata) { *node = *s.strip(node) }
	listed, err := stream.ListMetadata(ctx, options, &s.history, s.limit, s.source.List, strip)
	if err != nil {
		s.handleFailure(ctx, err)
	}
	return listed, err
}

func (s *nodeStore) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := s.history.Watch(ctx, options, s.limit.WrapWatch(s.source.Watch))
	switch {
	case err == nil:
		if s.recordSuccess() {
			s.log.Info("Resumed reading nodes")
		}
	case !stream.StartsWithList(options) || apierrors.IsForbidden(err):
		s.handleFailure(ctx, err) // an API server that cannot stream lists gets a list request instead
	}
	return w, err
}

// handleFailure records and logs why nodes cannot be read.
func (s *nodeStore) handleFailure(ctx context.Context, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	if s.recordFailure(nodesProblem(err), apierrors.IsForbidden(err)) {
		s.log.Error(err, "Failed to read nodes")
	}
}

// nodesProblem returns why nodes cannot be read, in a text that does not change between attempts.
func nodesProblem(err error) string {
	if apierrors.IsForbidden(err) {
		return "the aggregator may not list and watch the nodes of the cell: upgrade the chart breakwater there, or grant its account get, list and watch of nodes"
	}
	if request := (*url.Error)(nil); errors.As(err, &request) {
		err = request.Err
	}
	return clusters.Truncate(fmt.Sprintf("the nodes of the cell cannot be read: %v", err), MaxProblemBytes)
}

// strip keeps the name of a node and the labels that protectors use.
func (s *nodeStore) strip(whole *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	node := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: whole.Name, Labels: map[string]string{}}}
	for _, label := range s.labels {
		if value, has := whole.Labels[label]; has {
			node.Labels[label] = value
		}
	}
	return node
}

var _ cache.TransformingStore = (*nodeStore)(nil)

// Transformer returns a function that strips the nodes of a streamed list.
func (s *nodeStore) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		whole, err := nodeOf(obj)
		if err != nil {
			return nil, err
		}
		return s.strip(whole), nil
	}
}

func nodeOf(obj any) (*metav1.PartialObjectMetadata, error) {
	node, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, fmt.Errorf("the stream of nodes delivered a %T", obj)
	}
	return node, nil
}

// Add handles an event of the watch.
func (s *nodeStore) Add(obj any) error { return s.Update(obj) }

// Update handles an event of the watch.
func (s *nodeStore) Update(obj any) error {
	node, err := nodeOf(obj)
	if err == nil {
		s.put(node.Name, node.Labels)
	}
	return err
}

// Delete handles an event of the watch.
func (s *nodeStore) Delete(obj any) error {
	node, err := nodeOf(obj)
	if err == nil {
		s.put(node.Name, nil)
	}
	return err
}

// Replace handles a list of stripped nodes: the first, or one after a broken watch.
func (s *nodeStore) Replace(list []any, _ string) error {
	all := make([]*metav1.PartialObjectMetadata, 0, len(list))
	for _, obj := range list {
		node, err := nodeOf(obj)
		if err != nil {
			return err
		}
		all = append(all, node)
	}
	s.set(all, s.labels)
	return nil
}

// Resync does nothing: the store repeats no events.
func (s *nodeStore) Resync() error { return nil }

// MaxProblemBytes is the maximum length of a problem in a status, in bytes.
const MaxProblemBytes = 512
