// Package generator turns workloads into protectors. Each workload of the core cluster that a policy selects, or that asks
// for it by its label, has protectors, which go only when the workload is deleted on purpose or opts out.
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

// Name is the generator's name: of its controller, its field manager, its Lease and its events.
const Name = policy.ManagedBy

// refusedRetry is how long a source that was refused waits for the next try, where its state can mend without a change that
// we watch: the selector of a scale is of its status.
const refusedRetry = time.Minute

// Reconciler keeps the protectors of one source right. A request names the source, whether it exists or not.
type Reconciler struct {
	// Client reads from the cache and writes to the apiserver.
	Client client.Client
	// Live reads from the apiserver. It is asked before every step that a cache that lags behind could get
	// wrong for ever: the creation of a protector, its release, and a change of its condition.
	Live client.Reader
	// Kinds reads sources.
	Kinds *Kinds
	// Selector chooses the workloads that have protectors also without a policy.
	Selector labels.Selector
	Events   events.EventRecorder
	Metrics  *Metrics
	// Losses knows the protectors that vanished and are made anew by somebody else; nil when nobody does that.
	Losses Losses
	// Tracer makes spans; nil makes none.
	Tracer *tracing.Tracer
	// Brake holds back large decreases; nil grants all of them at once.
	Brake Brake

	retries *retries
}

// Losses are protectors that vanished without having been released.
type Losses interface {
	// Note records that a protector does not exist any more, by its last state.
	Note(last *v1alpha1.PodProtector)
	// Has reports whether a protector is about to be recreated.
	Has(key types.NamespacedName) bool
	// Find returns the last state of one that is, of those that are asked for.
	Find(is func(last *v1alpha1.PodProtector) bool) (last *v1alpha1.PodProtector, ok bool)
	// Forget records that a protector was released, and is not recreated.
	Forget(last *v1alpha1.PodProtector)
}

// outcome is what one Reconcile came to.
type outcome string

const (
	// ignored: the source wants no protector and has none of ours.
	ignored outcome = "Ignored"
	// protected: the source has its protectors.
	protected outcome = "Protected"
	// retained: the protectors stay, without the policy that they are by.
	retained outcome = "PolicyGone"
	// released: the source was deleted or opted out; protectors and finalizers are gone.
	released outcome = "Released"
	// sourceVanished: the protectors stay, without their source.
	sourceVanished outcome = "SourceVanished"
	// decreaseHeld: protectors stay in force, because their release is pending.
	decreaseHeld outcome = "DecreaseHeld"
	// nameTaken: a protector that is not ours has the name.
	nameTaken outcome = "NameTaken"
	// refused: the source asks for a protector that cannot be.
	refused outcome = "Refused"
	// outdated: the apiserver knows more than the cache. An event follows as a rule, and we look again in case it does not.
	outdated outcome = "Outdated"
)

// Reconcile implements reconcile.TypedReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, ref policy.Ref) (reconcile.Result, error) {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("kind", ref.Kind, "namespace", ref.Namespace, "name", ref.Name))
	ctx, span := r.Tracer.Root(ctx, tracing.SpanReconcile, time.Now())
	defer span.End()
	result, err := r.bringUp(ctx, ref)
	tellResult(span, ref, result, err)
	if result == refused && !r.Kinds.isBuiltIn(ref) {
		log.FromContext(ctx).Error(err, "refused; tried again in a while", "after", refusedRetry)
		return reconcile.Result{RequeueAfter: refusedRetry}, nil
	}
	if result == outdated && err == nil {
		// The event may never come: our predicates drop changes of status, and what a restored core repeats looks unchanged.
		return reconcile.Result{RequeueAfter: clusters.LookAgain}, nil
	}
	return reconcile.Result{}, err
}

// bringUp brings the protectors of a source up to date.
func (r *Reconciler) bringUp(ctx context.Context, ref policy.Ref) (outcome, error) {
	protectors, err := r.protectorsOf(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("list PodProtectors: %w", err)
	}
	if err := r.Kinds.learn(ctx, ref, protectors); err != nil {
		return "", err
	}
	source, err := r.Kinds.cached(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("get the %s: %w", ref.Kind, err)
	}
	result, err := r.settle(ctx, ref, source, protectors)
	r.Metrics.observe(ref, result)
	return result, err
}

// settle decides what a source, nil when it does not exist, and its protectors need.
func (r *Reconciler) settle(ctx context.Context, ref policy.Ref, source client.Object, protectors []*v1alpha1.PodProtector) (outcome, error) {
	switch {
	case source == nil && len(protectors) == 0:
		return ignored, nil
	case source == nil:
		return r.keep(ctx, ref, protectors)
	case source.GetDeletionTimestamp() != nil:
		return r.end(ctx, ref, source, protectors)
	case isPartOfAnother(ref, source) && len(protectors) == 0:
		return ignored, nil
	}
	choice, err := r.choose(ctx, ref, source, protectors)
	switch {
	case err != nil:
		return "", err
	case choice.Verdict == policy.Release:
		return r.release(ctx, ref, source, protectors, optedOut(ref, choice))
	default:
		return r.protect(ctx, ref, source, protectors, choice)
	}
}

// isPartOfAnother tells whether a source is a ReplicaSet or ReplicationController that a controller above it scales: that
// one is the source. Such a one that has a protector from before keeps it.
func isPartOfAnother(ref policy.Ref, source client.Object) bool {
	return (ref.Kind == "ReplicaSet" && ref.Group == "apps" || ref.Kind == "ReplicationController" && ref.Group == "") &&
		metav1.GetControllerOfNoCopy(source) != nil
}

// protectorsOf lists what the cache shows of a source's protectors, ours or not, in order of their names.
func (r *Reconciler) protectorsOf(ctx context.Context, ref policy.Ref) ([]*v1alpha1.PodProtector, error) {
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

// get reads an object; nil without an error means that there is none.
func get[T client.Object](ctx context.Context, reader client.Reader, key client.ObjectKey, into T) (T, error) {
	if err := reader.Get(ctx, key, into); err != nil {
		var none T
		return none, client.IgnoreNotFound(err)
	}
	return into, nil
}
