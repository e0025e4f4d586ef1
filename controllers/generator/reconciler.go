// Package generator generates protectors for workloads. Each workload of the core cluster that a policy selects, or that requests
// protection by its label, has protectors. They are released only when a user deletes the workload or opts out.
package generator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// Name is the name of the generator: of its controller, its field manager, its Lease and its events.
const Name = policy.ManagedBy

// refusedRetry is the retry interval for a source that was refused, if its state can improve without a change that the generator watches:
// its kind can get a scale subresource.
const refusedRetry = time.Minute

// Reconciler manages the protectors of one source. A request names the source, whether it exists or not. It decides which of its parts acts.
type Reconciler struct {
	// cache lists protectors.
	cache client.Reader
	// kinds reads sources.
	kinds    *Kinds
	policies *policyChooser
	// protection acts for sources that exist, releaser for those that need no protection any more, retainer for those that vanished.
	protection *protection
	releaser   *releaser
	retainer   *retainer
	source     *sourceEvents
	retries    *retries
	metrics    *Metrics
	tracer     *tracing.Tracer
}

// Reconcile implements reconcile.TypedReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, ref policy.Ref) (reconcile.Result, error) {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("kind", ref.Kind, "namespace", ref.Namespace, "name", ref.Name))
	ctx, span := r.tracer.Root(ctx, tracing.SpanReconcile, time.Now())
	defer span.End()
	result, err := r.reconcileSource(ctx, ref)
	recordResult(span, ref, result, err)
	if result == denied && !isBuiltIn(ref) {
		log.FromContext(ctx).Error(err, "Failed to apply PodProtector; retrying later", "after", refusedRetry)
		return reconcile.Result{RequeueAfter: refusedRetry}, nil
	}
	if result == outdated && err == nil {
		// Rule 11: the event may never come. The predicates drop status changes, and an object that a restored core changes again looks unchanged.
		return reconcile.Result{RequeueAfter: clusters.RecheckInterval}, nil
	}
	return reconcile.Result{}, err
}

// reconcileSource brings the protectors of a source up to date.
func (r *Reconciler) reconcileSource(ctx context.Context, ref policy.Ref) (outcome, error) {
	protectors, err := r.listCachedProtectors(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("list PodProtectors: %w", err)
	}
	if err := r.kinds.ensureWatched(ctx, ref, protectors); err != nil {
		return "", err
	}
	source, err := r.kinds.getCached(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("get the %s: %w", ref.Kind, err)
	}
	result, err := r.reconcileProtectors(ctx, ref, source, protectors)
	r.metrics.observe(ref, result)
	return result, err
}

// reconcileProtectors decides what a source, nil when it does not exist, and its protectors need.
func (r *Reconciler) reconcileProtectors(ctx context.Context, ref policy.Ref, source client.Object, protectors []*v1alpha1.PodProtector) (outcome, error) {
	switch {
	case source == nil && len(protectors) == 0:
		return ignored, nil
	case source == nil: // rule 10: what vanished was not released
		return r.retainer.retainWithoutSource(ctx, ref, protectors)
	case source.GetDeletionTimestamp() != nil:
		return r.releaser.releaseDeletedSource(ctx, ref, source, protectors)
	case len(protectors) == 0:
		if replaced, err := r.kinds.isReplaced(ctx, ref, source); err != nil || replaced {
			return ignored, err
		}
	}
	r.source.emitMistakes(source)
	choice, err := r.policies.choose(ctx, ref, source, protectors)
	switch {
	case err != nil:
		return "", err
	case choice.Verdict == policy.Release:
		return r.releaser.release(ctx, ref, source, protectors, optedOutCause(ref, choice))
	default:
		return r.protection.protect(ctx, ref, source, protectors, choice)
	}
}

// listCachedProtectors returns the cached protectors of a source, generated or not, sorted by name.
func (r *Reconciler) listCachedProtectors(ctx context.Context, ref policy.Ref) ([]*v1alpha1.PodProtector, error) {
	var protectors []*v1alpha1.PodProtector
	for _, key := range []string{sourceKey(ref), unidentified} {
		var list v1alpha1.PodProtectorList
		if err := r.cache.List(ctx, &list, client.InNamespace(ref.Namespace), client.MatchingFields{sourceIndex: key}); err != nil {
			return nil, err
		}
		for i := range list.Items {
			if policy.BelongsTo(&list.Items[i], ref) {
				protectors = append(protectors, &list.Items[i])
			}
		}
	}
	slices.SortFunc(protectors, func(a, b *v1alpha1.PodProtector) int { return strings.Compare(a.Name, b.Name) })
	return protectors, nil
}

// get reads an object; nil without an error means that it does not exist.
func get[T client.Object](ctx context.Context, reader client.Reader, key client.ObjectKey, into T) (T, error) {
	if err := reader.Get(ctx, key, into); err != nil {
		var zero T
		return zero, client.IgnoreNotFound(err)
	}
	return into, nil
}

// recordResult records the result of a reconciliation on the span of its source.
func recordResult(span trace.Span, ref policy.Ref, result outcome, err error) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String(tracing.Kind, ref.Kind), attribute.String(tracing.Namespace, ref.Namespace),
		attribute.String(tracing.Name, ref.Name), attribute.String(tracing.Result, string(result)))
	tracing.RecordError(span, err)
}
