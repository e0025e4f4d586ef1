package aggregator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

const (
	// labelSettleTime is how long a namespace must have had LabelProtected before the aggregator relies on it: each API server applies a
	// namespaceSelector to its own watch cache, which may be late.
	labelSettleTime = 5 * time.Second
	// labelReleaseDelay is how long a namespace keeps LabelProtected without a protector. A protector that was lost is recreated meanwhile (rule 10).
	labelReleaseDelay = 5 * time.Minute
)

// namespaceLabels sets LabelProtected on the namespaces of the cell's cluster that have protectors. It owns the label by server-side apply, with a
// field manager of this cell and core: the API server keeps the label until its last owner releases it, so aggregators of other cores and cells
// need no knowledge of each other.
type namespaceLabels struct {
	// manager is the field manager. canRelease is false if the core is unknown, because another core may use the same manager then.
	manager    string
	canRelease bool
	namespaces toolscache.SharedIndexInformer
	handler    toolscache.ResourceEventHandlerRegistration
	client     corev1client.NamespaceInterface
	// protectors are those of the core, as the watch shows them, with an index by namespace; live reads them from its API server.
	protectors toolscache.Indexer
	live       client.Reader
	countsFor  func(*v1alpha1.PodProtector) bool
	// has reports whether a namespace belongs to the cell, and to this leadership.
	has          func(namespace string) bool
	releaseDelay time.Duration
	monotonic    func() time.Time
	queue        workqueue.TypedRateLimitingInterface[string]
	ages         labelAges
	// denied reports that the API server denies changes of namespaces.
	denied atomic.Bool
	log    logr.Logger
}

// labelAges are the times since when namespaces have had LabelProtected, and since when they have had no protectors, on the monotonic clock.
type labelAges struct {
	mu      sync.Mutex
	labeled map[string]labelAge
	unused  map[string]time.Time
}

// labelAge is the age of the label of one namespace.
type labelAge struct {
	uid   types.UID
	since time.Time
	// isListed reports that the namespace had the label when this leadership began, so that it may be older.
	isListed bool
}

// newNamespaceLabels returns the labels of a leadership. It must run before it sets any.
func (a *Aggregator) newNamespaceLabels(state startState, countsFor func(*v1alpha1.PodProtector) bool, has func(string) bool, log logr.Logger) (*namespaceLabels, error) {
	delay := a.options.LabelReleaseDelay
	if delay == 0 {
		delay = labelReleaseDelay
	}
	n := &namespaceLabels{
		manager: webhookconfig.ClaimManager(a.options.Cell, state.coreUID), canRelease: state.coreUID != "",
		namespaces: newNamespaceInformer(a.metadataClient, delay), client: a.cellClientset.CoreV1().Namespaces(), protectors: a.informer.GetIndexer(), live: a.coreReader,
		countsFor: countsFor, has: has, releaseDelay: delay, monotonic: a.monotonic, log: log,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, time.Minute)),
		ages:  labelAges{labeled: map[string]labelAge{}, unused: map[string]time.Time{}},
	}
	if err := n.namespaces.SetTransform(n.stripNamespace); err != nil {
		return nil, err
	}
	var err error
	n.handler, err = n.namespaces.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    n.observe,
		UpdateFunc: func(_, obj any) { n.observe(obj, false) },
		DeleteFunc: n.forget,
	})
	return n, err
}

// hasSynced reports whether the aggregator knows which namespaces have the label.
func (n *namespaceLabels) hasSynced() bool { return n.handler.HasSynced() }

// newNamespaceInformer returns an informer of the namespaces of a cluster. It repeats its events, because slots move between shards without one.
func newNamespaceInformer(objects metadata.Interface, resync time.Duration) toolscache.SharedIndexInformer {
	namespaces := objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	return toolscache.NewSharedIndexInformer(clusters.Retrying(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return namespaces.List(ctx, options)
		},
		WatchFuncWithContext: namespaces.Watch,
	}), &metav1.PartialObjectMetadata{}, resync, toolscache.Indexers{})
}

// stripNamespace keeps the labels of a namespace, and whether the aggregator owns LabelProtected.
func (n *namespaceLabels) stripNamespace(obj any) (any, error) {
	whole, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	kept := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: whole.Name, UID: whole.UID, ResourceVersion: whole.ResourceVersion, Labels: whole.Labels,
	}}
	for _, entry := range whole.ManagedFields {
		if entry.Manager == n.manager {
			kept.ManagedFields = append(kept.ManagedFields, metav1.ManagedFieldsEntry{Manager: entry.Manager})
		}
	}
	return kept, nil
}

// claims reports whether the aggregator owns the label of a namespace.
func (n *namespaceLabels) claims(namespace *metav1.PartialObjectMetadata) bool {
	return isLabeled(namespace) && slices.ContainsFunc(namespace.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == n.manager })
}

func isLabeled(namespace *metav1.PartialObjectMetadata) bool {
	return namespace.Labels[v1alpha1.LabelProtected] == "true"
}

// observe records since when a namespace has the label.
func (n *namespaceLabels) observe(obj any, isListed bool) {
	if namespace, ok := obj.(*metav1.PartialObjectMetadata); ok {
		n.ages.observe(namespace, n.monotonic(), isListed)
		n.queue.Add(namespace.Name)
	}
}

func (n *namespaceLabels) forget(obj any) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if namespace, ok := obj.(*metav1.PartialObjectMetadata); ok {
		n.ages.forget(namespace.Name)
	}
}

// settling returns how long the label of a namespace must not be relied on yet, and whether it may be older than this leadership. It is 0 for a
// namespace without the label.
func (n *namespaceLabels) settling(namespace *metav1.PartialObjectMetadata) (left time.Duration, isListed bool) {
	if !isLabeled(namespace) {
		return 0, false
	}
	return n.ages.settling(namespace, n.monotonic())
}

// run sets and removes labels until ctx ends. It may be called for nil, which sets none.
func (n *namespaceLabels) run(ctx context.Context) {
	if n == nil {
		return
	}
	defer context.AfterFunc(ctx, n.queue.ShutDown)()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { n.namespaces.RunWithContext(ctx) })
	if !toolscache.WaitForCacheSync(ctx.Done(), n.hasSynced) {
		return
	}
	for {
		namespace, shutdown := n.queue.Get()
		if shutdown {
			return
		}
		if err := n.reconcile(ctx, namespace); err != nil && ctx.Err() == nil {
			n.reportError(err, namespace)
			n.queue.AddRateLimited(namespace)
		} else {
			n.queue.Forget(namespace)
		}
		n.queue.Done(namespace)
	}
}

// changed checks the label of a namespace whose protectors may have changed. It may be called for nil.
func (n *namespaceLabels) changed(namespace string) {
	if n != nil {
		n.queue.Add(namespace)
	}
}

// reportError logs an error; a denied permission only once.
func (n *namespaceLabels) reportError(err error, namespace string) {
	if apierrors.IsConflict(err) || apierrors.IsForbidden(err) && n.denied.Swap(true) {
		return
	}
	n.log.Error(err, "Failed to set whether a namespace has protectors", "namespace", namespace, "label", v1alpha1.LabelProtected)
}

// reconcile sets the label of a namespace that has protectors, and releases it on one that has had none for some time. A namespace that another
// leadership works on keeps what it has.
func (n *namespaceLabels) reconcile(ctx context.Context, name string) error {
	stored, exists, err := n.namespaces.GetStore().GetByKey(name)
	if err != nil || !exists || !n.has(name) {
		return err
	}
	namespace := stored.(*metav1.PartialObjectMetadata)
	claims := n.claims(namespace)
	inUse, err := n.hasProtectors(name)
	switch {
	case err != nil:
		return err
	case inUse:
		n.ages.use(name)
		if claims {
			return nil
		}
		return n.apply(ctx, namespace, map[string]string{v1alpha1.LabelProtected: "true"})
	case !claims || !n.canRelease:
		return nil
	}
	if left := n.releaseDelay - n.monotonic().Sub(n.ages.unusedSince(name, n.monotonic())); left > 0 {
		n.queue.AddAfter(name, left)
		return nil
	}
	return n.release(ctx, namespace)
}

// hasProtectors reports whether the watch shows a protector of a namespace that the aggregator counts for.
func (n *namespaceLabels) hasProtectors(namespace string) (bool, error) {
	found, err := n.protectors.ByIndex(toolscache.NamespaceIndex, namespace)
	return slices.ContainsFunc(found, func(obj any) bool {
		p, ok := obj.(*v1alpha1.PodProtector)
		return ok && n.countsFor(p)
	}), err
}

// release gives the label up if the API server of the core confirms that the namespace has no protectors.
func (n *namespaceLabels) release(ctx context.Context, namespace *metav1.PartialObjectMetadata) error {
	var live v1alpha1.PodProtectorList
	if err := n.live.List(ctx, &live, client.InNamespace(namespace.Name)); err != nil {
		return fmt.Errorf("list the protectors of namespace %s: %w", namespace.Name, err)
	}
	for i := range live.Items {
		if n.countsFor(&live.Items[i]) {
			n.queue.AddAfter(namespace.Name, n.releaseDelay)
			return nil
		}
	}
	n.ages.use(namespace.Name)
	return n.apply(ctx, namespace, nil)
}

// apply declares the labels that the aggregator owns. The UID makes the API server refuse to create the namespace, or to label another one of its
// name.
func (n *namespaceLabels) apply(ctx context.Context, namespace *metav1.PartialObjectMetadata, labels map[string]string) error {
	want := corev1ac.Namespace(namespace.Name).WithUID(namespace.UID).WithLabels(labels)
	if _, err := n.client.Apply(ctx, want, metav1.ApplyOptions{FieldManager: n.manager, Force: true}); err != nil {
		return fmt.Errorf("apply label %s: %w", v1alpha1.LabelProtected, err)
	}
	n.denied.Store(false)
	n.log.Info("Applied the label of a namespace", "namespace", namespace.Name, "protected", len(labels) > 0)
	return nil
}

// observe records the age of a namespace's label.
func (a *labelAges) observe(namespace *metav1.PartialObjectMetadata, now time.Time, isListed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if age, ok := a.labeled[namespace.Name]; !isLabeled(namespace) {
		delete(a.labeled, namespace.Name)
	} else if !ok || age.uid != namespace.UID {
		a.labeled[namespace.Name] = labelAge{namespace.UID, now, isListed}
	}
}

// settling returns how long the label of a namespace must not be relied on yet, and whether it may be older than this leadership. The store
// can show a label before its event arrives.
func (a *labelAges) settling(namespace *metav1.PartialObjectMetadata, now time.Time) (left time.Duration, isListed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	age, ok := a.labeled[namespace.Name]
	if !ok || age.uid != namespace.UID {
		return labelSettleTime, false
	}
	return max(labelSettleTime-now.Sub(age.since), 0), age.isListed
}

// use records that a namespace has protectors, or that its label was released.
func (a *labelAges) use(namespace string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.unused, namespace)
}

// unusedSince returns since when a namespace has had no protectors.
func (a *labelAges) unusedSince(namespace string, now time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.unused[namespace]; !ok {
		a.unused[namespace] = now
	}
	return a.unused[namespace]
}

func (a *labelAges) forget(namespace string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.labeled, namespace)
	delete(a.unused, namespace)
}
