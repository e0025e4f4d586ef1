package guard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// defaultLabelRetention is how long the label stays after the last protector. A protector that vanished without having been released stays
// in force from the memory of the webhooks until it is recreated (rule 10).
const defaultLabelRetention = 10 * time.Minute

// namespaceLabels labels the namespaces of the cell's cluster for which protectors of the core exist, so that a webhook of scope Protected
// reviews removals there. Each core has an item of its own in an annotation of the namespace, and removes only that; the last one removes the
// label. The processes of one core, such as a former leader or the leader of another cell of the cluster, exclude each other by
// compare-and-swap, see webhookconfig.ProtectedBy.
type namespaceLabels struct {
	// core is the UID of the core's namespace kube-system.
	core   string
	client metadata.Getter
	// stored are the namespaces that the watch shows.
	stored toolscache.Store
	// Protectors returns the protectors of a namespace that the cache shows and the leadership counts. hasAny asks the core's API server
	// whether there is one, and that of the cell whether a share outlives its protector.
	protectors func(namespace string) []*v1alpha1.PodProtector
	hasAny     func(ctx context.Context, namespace string) (bool, error)
	// owns reports whether the leadership labels a namespace.
	owns func(namespace string) bool
	// enqueueProtectors enqueues the protectors of some namespaces.
	enqueueProtectors func(in func(namespace string) bool)
	queue             workqueue.TypedRateLimitingInterface[string]
	retention         time.Duration
	monotonic         func() time.Time
	log               logr.Logger

	mu     sync.Mutex
	states map[string]labelState
}

// Core is the core whose namespaces are labeled.
type Core struct {
	// UID is the UID of its namespace kube-system; empty if it is unknown.
	UID string
	// Protectors is the cache of its protectors, and live reads them from its API server. shares reads shares live from the cluster of the cell; nil
	// if the cell has none.
	Protectors   toolscache.Indexer
	Live, Shares client.Reader
	// CountsFor reports whether the leadership counts for a protector.
	CountsFor func(*v1alpha1.PodProtector) bool
}

// counted returns the protectors of a namespace that the cache shows and the leadership counts.
func (c *Core) counted(namespace string) (counted []*v1alpha1.PodProtector) {
	all, _ := c.Protectors.ByIndex(toolscache.NamespaceIndex, namespace) // the cache has this index
	for _, obj := range all {
		if p, ok := obj.(*v1alpha1.PodProtector); ok && c.CountsFor(p) {
			counted = append(counted, p)
		}
	}
	return counted
}

// hasAny asks the core's API server whether a namespace has a protector that the leadership counts, and that of the cell whether a share outlives its
// protector.
func (c *Core) hasAny(ctx context.Context, namespace string) (bool, error) {
	has, err := hasProtector(ctx, c.Live, namespace, c.CountsFor)
	if has || err != nil || c.Shares == nil {
		return has, err
	}
	return hasProtector(ctx, c.Shares, namespace, func(p *v1alpha1.PodProtector) bool { return p.Spec.ShareOf != nil && p.Spec.ShareOf.Core == c.UID })
}

// newNamespaceLabels returns the labels of a leadership; nil if the core is unknown.
func newNamespaceLabels(
	e *Exemptions, core Core, objects metadata.Interface, owns func(namespace string) bool, retention time.Duration, monotonic func() time.Time, log logr.Logger,
) *namespaceLabels {
	if core.UID == "" {
		return nil
	}
	return &namespaceLabels{
		core: core.UID, client: objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}), stored: e.namespaces.GetStore(),
		protectors: core.counted, hasAny: core.hasAny,
		owns: owns, enqueueProtectors: e.enqueue, retention: cmp.Or(retention, defaultLabelRetention), monotonic: monotonic,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, time.Minute)),
		log:   log, states: map[string]labelState{},
	}
}

// hasProtector reports whether a namespace of a cluster has a protector that matches.
func hasProtector(ctx context.Context, from client.Reader, namespace string, matches func(*v1alpha1.PodProtector) bool) (bool, error) {
	list := &v1alpha1.PodProtectorList{}
	if err := from.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return false, fmt.Errorf("list the protectors of the namespace: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(p v1alpha1.PodProtector) bool { return matches(&p) }), nil
}

// start enqueues the namespaces with protectors, once the watch of namespaces has shown all. It may be called for nil.
func (l *namespaceLabels) start() {
	if l == nil {
		return
	}
	for _, obj := range l.stored.List() {
		if namespace, ok := obj.(*metav1.PartialObjectMetadata); ok {
			l.namespaceChanged(namespace, true)
		}
	}
}

// run labels namespaces until ctx ends. It may be called for nil, which labels nothing.
func (l *namespaceLabels) run(ctx context.Context) {
	if l == nil {
		return
	}
	var working sync.WaitGroup
	working.Go(func() {
		for {
			namespace, shutdown := l.queue.Get()
			if shutdown {
				return
			}
			l.processKey(ctx, namespace)
		}
	})
	sweep := time.NewTicker(min(l.retention, time.Minute))
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			l.queue.ShutDown()
			working.Wait()
			return
		case <-sweep.C:
			l.enqueueReleasable()
		}
	}
}

// enqueueReleasable enqueues the namespaces whose label the core may not need any more.
func (l *namespaceLabels) enqueueReleasable() {
	for _, obj := range l.stored.List() {
		namespace, ok := obj.(*metav1.PartialObjectMetadata)
		if !ok || !l.owns(namespace.Name) {
			continue
		}
		_, isListed := webhookconfig.ParseProtectedBy(namespace.Annotations[v1alpha1.AnnotationProtectedBy])[l.core]
		if isListed && len(l.protectors(namespace.Name)) == 0 {
			l.queue.Add(namespace.Name)
		}
	}
}

func (l *namespaceLabels) processKey(ctx context.Context, namespace string) {
	defer l.queue.Done(namespace)
	if !l.owns(namespace) || ctx.Err() != nil {
		return
	}
	err := l.process(ctx, namespace)
	switch {
	case err == nil:
		l.queue.Forget(namespace)
	case apierrors.IsConflict(err):
		l.queue.AddRateLimited(namespace)
	default:
		if l.queue.NumRequeues(namespace) == 0 {
			l.log.Error(err, "Failed to label a namespace", "namespace", namespace)
		}
		l.queue.AddRateLimited(namespace)
	}
}

// process labels a namespace, or releases its label. The protectors are read before the namespace: a protector is confirmed only by a read of
// the namespace that follows its creation.
func (l *namespaceLabels) process(ctx context.Context, namespace string) error {
	protectors := l.protectors(namespace)
	found, err := l.client.Get(ctx, namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		l.setState(namespace, &labelState{confirmed: uidsOf(protectors)})
		l.enqueueProtectors(func(n string) bool { return n == namespace })
		return nil
	}
	if err != nil {
		return fmt.Errorf("get namespace: %w", err)
	}
	if len(protectors) == 0 {
		return l.release(ctx, found)
	}
	by := webhookconfig.ParseProtectedBy(found.Annotations[v1alpha1.AnnotationProtectedBy])
	isLabeled := by[l.core] && found.Labels[v1alpha1.LabelProtected] == "true"
	if !isLabeled {
		// A watch event of this write may precede the new state.
		l.setState(namespace, &labelState{uid: found.UID, since: l.monotonic()})
		by[l.core] = true
		if err := l.patch(ctx, found, by); err != nil {
			return fmt.Errorf("label namespace: %w", err)
		}
		l.log.Info("Labeled namespace with protectors", "namespace", namespace)
	}
	if wait := l.confirm(found, protectors, isLabeled); wait > 0 {
		l.queue.AddAfter(namespace, wait)
		return nil
	}
	l.enqueueProtectors(func(n string) bool { return n == namespace })
	return nil
}

// release releases the label of a namespace without protectors, in two writes.
func (l *namespaceLabels) release(ctx context.Context, found *metav1.PartialObjectMetadata) error {
	by := webhookconfig.ParseProtectedBy(found.Annotations[v1alpha1.AnnotationProtectedBy])
	isNeeded, isListed := by[l.core]
	if !isListed {
		l.setState(found.Name, nil)
		return nil
	}
	if exists, err := l.hasAny(ctx, found.Name); err != nil || exists {
		return err // a core that does not answer may have protectors
	}
	if isNeeded {
		by[l.core] = false
		return l.patch(ctx, found, by)
	}
	l.mu.Lock()
	state, now := l.states[found.Name], l.monotonic()
	if state.releasingSince.IsZero() || state.releasedVersion != found.ResourceVersion { // the label may have been set and released again
		state = labelState{uid: found.UID, releasingSince: now, releasedVersion: found.ResourceVersion}
		l.states[found.Name] = state
	}
	l.mu.Unlock()
	if now.Sub(state.releasingSince) < l.retention {
		return nil
	}
	delete(by, l.core)
	if err := l.patch(ctx, found, by); err != nil {
		return err
	}
	l.log.Info("Released label of namespace without protectors", "namespace", found.Name, "remaining", by.String())
	return nil
}

// patch sets the annotation, and the label unless no core is listed. It fails with a conflict if the namespace has changed.
func (l *namespaceLabels) patch(ctx context.Context, found *metav1.PartialObjectMetadata, by webhookconfig.ProtectedBy) error {
	label, annotation := any("true"), any(by.String())
	if len(by) == 0 {
		label, annotation = nil, nil
	}
	change, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": found.UID, "resourceVersion": found.ResourceVersion,
		"labels":      map[string]any{v1alpha1.LabelProtected: label},
		"annotations": map[string]any{v1alpha1.AnnotationProtectedBy: annotation},
	}})
	if err != nil {
		return err
	}
	_, err = l.client.Patch(ctx, found.Name, types.MergePatchType, change, metav1.PatchOptions{FieldManager: "breakwater-aggregator"})
	return err
}
