// Package generator generates protectors for workloads. Each workload of the core cluster that a policy selects, or that requests
// protection by its label, has protectors. They are released only when a user deletes the workload or opts out.
package generator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
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
// the selector of a scale is part of its status.
const refusedRetry = time.Minute

// Reconciler manages the protectors of one source. A request names the source, whether it exists or not.
type Reconciler struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads from the API server. The generator uses it before every step that could go wrong permanently if the cache lags: the
	// creation of a protector, its release, and a change of its condition.
	Live client.Reader
	// Kinds reads sources.
	Kinds *Kinds
	// Selector selects the workloads that have protectors even without a policy.
	Selector labels.Selector
	Events   events.EventRecorder
	Metrics  *Metrics
	// Losses has the protectors that vanished and that the keeper recreates; nil without a keeper.
	Losses Losses
	// Tracer creates spans; nil creates none.
	Tracer *tracing.Tracer
	// Brake holds back large decreases; nil grants all of them at once.
	Brake Brake

	retries *retries
}

// Losses are protectors that vanished without having been released.
type Losses interface {
	// Record records that a protector no longer exists, by its last state.
	Record(last *v1alpha1.PodProtector)
	// Has reports whether a protector is about to be recreated.
	Has(key types.NamespacedName) bool
	// Find returns the last state of a protector that is about to be recreated and for which is returns true.
	Find(is func(last *v1alpha1.PodProtector) bool) (last *v1alpha1.PodProtector, ok bool)
	// Forget records that a protector was released, and is not recreated.
	Forget(last *v1alpha1.PodProtector)
}

// outcome is the result of one reconciliation.
type outcome string

const (
	// ignored: the source needs no protector and has no generated one.
	ignored outcome = "Ignored"
	// protected: the source has its protectors.
	protected outcome = "Protected"
	// retained: the protectors stay, without the policy that generated them.
	retained outcome = "PolicyGone"
	// released: the source was deleted or opted out; protectors and finalizers were removed.
	released outcome = "Released"
	// sourceVanished: the protectors stay, without their source.
	sourceVanished outcome = "SourceVanished"
	// decreaseHeld: protectors stay in force, because their release is pending.
	decreaseHeld outcome = "DecreaseHeld"
	// nameTaken: a protector that was not generated has the name.
	nameTaken outcome = "NameTaken"
	// refused: the source requests a protector that cannot be created.
	refused outcome = "Refused"
	// outdated: the API server has a newer state than the cache. Usually an event follows. The generator also looks again in case it does
	// not.
	outdated outcome = "Outdated"
)

// Reconcile implements reconcile.TypedReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, ref policy.Ref) (reconcile.Result, error) {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("kind", ref.Kind, "namespace", ref.Namespace, "name", ref.Name))
	ctx, span := r.Tracer.Root(ctx, tracing.SpanReconcile, time.Now())
	defer span.End()
	result, err := r.reconcileSource(ctx, ref)
	recordResult(span, ref, result, err)
	if result == refused && !r.Kinds.isBuiltIn(ref) {
		log.FromContext(ctx).Error(err, "Failed to apply PodProtector; retrying later", "after", refusedRetry)
		return reconcile.Result{RequeueAfter: refusedRetry}, nil
	}
	if result == outdated && err == nil {
		// The event may never come: the predicates drop status changes, and an object that a restored core changes again looks unchanged.
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
	if err := r.Kinds.ensureWatched(ctx, ref, protectors); err != nil {
		return "", err
	}
	source, err := r.Kinds.getCached(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("get the %s: %w", ref.Kind, err)
	}
	result, err := r.reconcileProtectors(ctx, ref, source, protectors)
	r.Metrics.observe(ref, result)
	return result, err
}

// reconcileProtectors decides what a source, nil when it does not exist, and its protectors need.
func (r *Reconciler) reconcileProtectors(ctx context.Context, ref policy.Ref, source client.Object, protectors []*v1alpha1.PodProtector) (outcome, error) {
	switch {
	case source == nil && len(protectors) == 0:
		return ignored, nil
	case source == nil:
		return r.retainWithoutSource(ctx, ref, protectors)
	case source.GetDeletionTimestamp() != nil:
		return r.releaseDeletedSource(ctx, ref, source, protectors)
	case isScaledByController(ref, source) && len(protectors) == 0:
		return ignored, nil
	}
	choice, err := r.choosePolicy(ctx, ref, source, protectors)
	switch {
	case err != nil:
		return "", err
	case choice.Verdict == policy.Release:
		return r.release(ctx, ref, source, protectors, optedOutCause(ref, choice))
	default:
		return r.protect(ctx, ref, source, protectors, choice)
	}
}

// isScaledByController reports whether a source is a ReplicaSet or ReplicationController with a controller that scales it: that controller is
// the source. settle keeps existing protectors of such a source.
func isScaledByController(ref policy.Ref, source client.Object) bool {
	return (ref.Kind == "ReplicaSet" && ref.Group == "apps" || ref.Kind == "ReplicationController" && ref.Group == "") &&
		metav1.GetControllerOfNoCopy(source) != nil
}

// listCachedProtectors returns the cached protectors of a source, generated or not, sorted by name.
func (r *Reconciler) listCachedProtectors(ctx context.Context, ref policy.Ref) ([]*v1alpha1.PodProtector, error) {
	var list v1alpha1.PodProtectorList
	if err := r.Client.List(ctx, &list, client.InNamespace(ref.Namespace), client.MatchingFields{sourceIndex: sourceKey(ref)}); err != nil {
		return nil, err
	}
	protectors := make([]*v1alpha1.PodProtector, 0, len(list.Items))
	for i := range list.Items {
		protectors = append(protectors, &list.Items[i])
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
