package generator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// These are the indexes of cached protectors: by their source, and by the policy that generated them.
const (
	sourceIndex = "breakwater.source"
	policyIndex = "breakwater.policy"
)

// countDelay is how long a policy waits for further events before it counts again.
const countDelay = time.Second

func sourceKey(ref policy.Ref) string {
	return strings.Join([]string{ref.Group, ref.Kind, ref.Name}, "/")
}

func indexSource(object client.Object) []string {
	if protector, ok := object.(*v1alpha1.PodProtector); ok {
		if ref, _, ok := policy.SourceOf(protector); ok {
			return []string{sourceKey(ref)}
		}
		if policy.IsGenerated(protector) {
			return []string{unidentified}
		}
	}
	return nil
}

func indexPolicy(object client.Object) []string {
	if policy := object.GetAnnotations()[v1alpha1.AnnotationPolicy]; policy != "" {
		return []string{policy}
	}
	return nil
}

// sourceChangedPredicate drops the status writes of rollouts.
func sourceChangedPredicate() predicate.TypedPredicate[client.Object] {
	return predicate.TypedFuncs[client.Object]{
		UpdateFunc: func(e event.TypedUpdateEvent[client.Object]) bool {
			return hasMetadataChanged(e.ObjectOld, e.ObjectNew) || !equality.Semantic.DeepEqual(specOf(e.ObjectOld), specOf(e.ObjectNew))
		},
	}
}

// protectorChangedPredicate drops the status writes of webhooks and aggregators, of which a storm makes many. It passes a change of the generator's
// condition by another client. It also passes the record of a decrease, which may arrive when the source no longer wants the decrease. It
// records a loss before the Deployment is reconciled, even if another component records it too.
func protectorChangedPredicate(losses Losses) predicate.TypedPredicate[*v1alpha1.PodProtector] {
	return predicate.TypedFuncs[*v1alpha1.PodProtector]{
		DeleteFunc: func(e event.TypedDeleteEvent[*v1alpha1.PodProtector]) bool {
			if losses != nil { // rule 10
				losses.Record(e.Object, e.DeleteStateUnknown)
			}
			return true
		},
		UpdateFunc: func(e event.TypedUpdateEvent[*v1alpha1.PodProtector]) bool {
			return hasMetadataChanged(e.ObjectOld, e.ObjectNew) ||
				!equality.Semantic.DeepEqual(e.ObjectOld.Spec, e.ObjectNew.Spec) || isDecreasePending(e.ObjectOld) != isDecreasePending(e.ObjectNew) ||
				!equality.Semantic.DeepEqual(
					meta.FindStatusCondition(e.ObjectOld.Status.Conditions, v1alpha1.ConditionTargetResolved),
					meta.FindStatusCondition(e.ObjectNew.Status.Conditions, v1alpha1.ConditionTargetResolved))
		},
	}
}

func isDecreasePending(p *v1alpha1.PodProtector) bool {
	_, pending := brake.PendingOf(p)
	return pending
}

// hasMetadataChanged reports whether a deletion began, or labels, annotations (which cached sources do not have) or finalizers changed. The
// generation, which a change of the spec increments, is not sufficient: after a restore from a backup, a core assigns the same one again, and a
// deletion may begin again that the restore has undone. A resync, which repeats an object unchanged, also passes: it protects against an event that was
// handled wrongly.
func hasMetadataChanged(before, after client.Object) bool {
	return before.GetUID() != after.GetUID() ||
		before.GetGeneration() != after.GetGeneration() ||
		!before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp()) ||
		before.GetResourceVersion() == after.GetResourceVersion() ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
		!slices.Equal(before.GetFinalizers(), after.GetFinalizers())
}

// enqueueSource maps an object to itself as a source of a kind.
func enqueueSource(kind schema.GroupKind) handler.TypedEventHandler[client.Object, policy.Ref] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []policy.Ref {
		return []policy.Ref{policy.RefOf(kind, object)}
	})
}

// mapToSources maps a policy to all sources that it may select, or has selected. They are sorted, so that a run can be repeated.
func (r *Reconciler) mapToSources(ctx context.Context, object client.Object) []policy.Ref {
	p := policy.NewPolicy(object)
	if p == nil {
		return nil
	}
	found := map[policy.Ref]bool{}
	_ = r.kinds.forEachSource(ctx, p.Namespace, p.Spec.Workloads.Kinds, func(ref policy.Ref, _ client.Object) error {
		found[ref] = true
		return nil
	})
	var list v1alpha1.PodProtectorList
	if err := r.cache.List(ctx, &list, client.InNamespace(p.Namespace), client.MatchingFields{policyIndex: p.String()}); err == nil {
		for i := range list.Items {
			for _, ref := range r.mapToSource(ctx, &list.Items[i]) {
				found[ref] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b policy.Ref) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(sourceKey(a), sourceKey(b)))
	})
}

type policyQueue = workqueue.TypedRateLimitingInterface[policyRef]

// enqueueDelayed makes policies count again after countDelay, for any event of an object; of maps the object to the policies.
func enqueueDelayed[T client.Object](mapFunc func(context.Context, T) []policyRef) handler.TypedEventHandler[T, policyRef] {
	add := func(ctx context.Context, q policyQueue, objects ...T) {
		for _, object := range objects {
			for _, ref := range mapFunc(ctx, object) {
				q.AddAfter(ref, countDelay)
			}
		}
	}
	return handler.TypedFuncs[T, policyRef]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[T], q policyQueue) { add(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[T], q policyQueue) {
			add(ctx, q, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[T], q policyQueue) { add(ctx, q, e.Object) },
	}
}

// policyRefsFor returns all policies that may select workloads of a namespace.
func (r *PolicyReconciler) policyRefsFor(ctx context.Context, namespace string) []policyRef {
	policies, err := listPolicies(ctx, r.Client, namespace)
	if err != nil {
		return nil // the cache has stopped
	}
	refs := make([]policyRef, 0, len(policies))
	for _, p := range policies {
		refs = append(refs, policyRef{p.Namespace, p.Name})
	}
	return refs
}

func mapToPolicy(_ context.Context, protector *v1alpha1.PodProtector) []policyRef {
	kind, name, ok := strings.Cut(protector.Annotations[v1alpha1.AnnotationPolicy], "/")
	switch {
	case !ok:
		return nil
	case kind == policy.ClusterPolicy:
		return []policyRef{{Name: name}}
	default:
		return []policyRef{{Namespace: protector.Namespace, Name: name}}
	}
}

// retries enqueues sources again that have pending decreases, or that the generator has changed.
type retries struct {
	queue workqueue.TypedRateLimitingInterface[policy.Ref]
}

// source connects the retries to the controller's queue.
func (r *retries) source() source.TypedSource[policy.Ref] {
	return source.TypedFunc[policy.Ref](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[policy.Ref]) error {
		r.queue = queue
		return nil
	})
}

func (r *retries) retryAfter(ref policy.Ref, delay time.Duration) {
	if r.queue != nil && delay > 0 {
		r.queue.AddAfter(ref, delay)
	}
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
	return w.liveNamespaceLabels(ctx, namespace)
}

// liveNamespaceLabels returns the labels of a namespace from the API server.
func (w *kindWatches) liveNamespaceLabels(ctx context.Context, namespace string) (map[string]string, error) {
	object, err := w.metadata.Resource(namespaceResource()).Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get the labels of namespace %s: %w", namespace, err)
	}
	return object.Labels, nil
}

func namespaceResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}
