package generator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

const (
	// notServedRetry is the retry interval for a kind that is not served: the API server serves a kind a little after it shows the CRD.
	notServedRetry = 5 * time.Second
	// maxReleaseWait bounds how long the deletion of a policy waits for its protectors. Those that still name it after that stay in force.
	maxReleaseWait = 5 * time.Minute
)

// policyRef names a policy of either kind; a cluster-scoped policy has no namespace.
type policyRef struct{ Namespace, Name string }

// PolicyReconciler holds policies until their deletion is processed, watches the kinds that they name, and reports in their status what
// they apply to.
type PolicyReconciler struct {
	Client client.Client
	Live   client.Reader
	Kinds  *Kinds
	Events events.EventRecorder
	// Losses are the protectors that vanished; nil without a keeper.
	Losses Losses
	// Now is the clock.
	Now func() time.Time
}

// Reconcile implements reconcile.TypedReconciler.
func (r *PolicyReconciler) Reconcile(ctx context.Context, ref policyRef) (reconcile.Result, error) {
	object, err := r.getPolicy(ctx, ref)
	if err != nil || object == nil {
		return reconcile.Result{}, err
	}
	policy := policy.NewPolicy(object)
	switch {
	case policy.Deleted && policy.HasFinalizer:
		return r.finishDeletion(ctx, object, policy)
	case policy.Deleted:
		return reconcile.Result{}, nil
	case !policy.HasFinalizer:
		err := clusters.AddFinalizer(ctx, r.Client, policyKind(policy), object, v1alpha1.FinalizerPolicy, Name)
		if err != nil {
			_, err = classifyWriteError(err, "add the finalizer to the policy")
		}
		return reconcile.Result{}, err
	}
	served, err := r.watchKinds(ctx, policy)
	if err != nil {
		return reconcile.Result{}, err
	}
	status, err := r.computeStatus(ctx, object, policy)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.updateStatus(ctx, object, status, served); err != nil {
		_, err = classifyWriteError(err, "update the status of the policy")
		return reconcile.Result{}, err
	}
	if served.Status != metav1.ConditionTrue {
		return reconcile.Result{RequeueAfter: notServedRetry}, nil
	}
	return reconcile.Result{}, nil
}

// watchKindsOnly watches the kinds of a policy whose status another shard writes: the policy also applies to workloads of this shard's namespaces.
func (r *PolicyReconciler) watchKindsOnly(ctx context.Context, ref policyRef) (reconcile.Result, error) {
	object, err := r.getPolicy(ctx, ref)
	if err != nil || object == nil {
		return reconcile.Result{}, err
	}
	served, err := r.watchKinds(ctx, policy.NewPolicy(object))
	if err == nil && served.Status != metav1.ConditionTrue {
		return reconcile.Result{RequeueAfter: notServedRetry}, nil
	}
	return reconcile.Result{}, err
}

func (r *PolicyReconciler) getPolicy(ctx context.Context, ref policyRef) (client.Object, error) {
	object, err := get(ctx, client.Reader(r.Client), client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, emptyPolicy(ref.Namespace))
	if err != nil {
		return nil, fmt.Errorf("get the policy: %w", err)
	}
	return object, nil
}

// finishDeletion removes the finalizer of a policy once no protector depends on it. Each of its protectors was released, belongs to another policy
// now, or has a condition that it is kept although the policy was deleted. A policy that is deleted because its CRD is was not deleted on
// purpose.
func (r *PolicyReconciler) finishDeletion(ctx context.Context, object client.Object, policy *policy.Policy) (reconcile.Result, error) {
	isKindDeleted, err := r.Kinds.isResourceDeleted(ctx, policyResource(policy))
	if err != nil {
		return reconcile.Result{}, err
	}
	if timedOut := r.Now().Sub(object.GetDeletionTimestamp().Time) > maxReleaseWait; !isKindDeleted && !timedOut {
		dependents, err := r.countDependents(ctx, policy)
		if err != nil {
			return reconcile.Result{}, err
		}
		if dependents > 0 {
			log.FromContext(ctx).V(1).Info("Waiting for release of protectors", "left", dependents)
			return reconcile.Result{RequeueAfter: notServedRetry}, nil
		}
	} else if timedOut {
		r.Events.Eventf(object, nil, corev1.EventTypeWarning, v1alpha1.ReasonPolicyVanished, "Release",
			"Protectors that were not released within %s of the deletion stay in force.", maxReleaseWait)
	}
	live, err := r.getLiveTerminating(ctx, object)
	if err != nil || live == nil {
		return reconcile.Result{}, err
	}
	if err := clusters.DropFinalizer(ctx, r.Client, live, v1alpha1.FinalizerPolicy, Name); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("remove the finalizer from the policy: %w", err)
	}
	log.FromContext(ctx).Info("Released policy")
	return reconcile.Result{}, nil
}

// emptyPolicy returns an empty policy of the kind that has that namespace.
func emptyPolicy(namespace string) client.Object {
	if namespace == "" {
		return &v1alpha1.ClusterProtectionPolicy{}
	}
	return &v1alpha1.ProtectionPolicy{}
}

// getLiveTerminating returns the policy from the API server; nil if it is not being deleted, was recreated, or does not exist.
func (r *PolicyReconciler) getLiveTerminating(ctx context.Context, object client.Object) (client.Object, error) {
	live, err := get(ctx, r.Live, client.ObjectKeyFromObject(object), emptyPolicy(object.GetNamespace()))
	if err != nil || live == nil || live.GetUID() != object.GetUID() || live.GetDeletionTimestamp() == nil {
		return nil, err
	}
	return live, nil
}

// countDependents counts the protectors that still belong to a policy. If the cache shows none, it reads from the API server, page by page, and then
// counts one that vanished: it would be recreated as one whose policy no longer exists, although the generator has not recorded its deletion.
func (r *PolicyReconciler) countDependents(ctx context.Context, policy *policy.Policy) (int, error) {
	var cached v1alpha1.PodProtectorList
	err := r.Client.List(ctx, &cached, client.InNamespace(policy.Namespace), client.MatchingFields{policyIndex: policy.String()})
	if err != nil {
		return 0, fmt.Errorf("list PodProtectors: %w", err)
	}
	if count := countDependentsIn(cached.Items, policy); count > 0 {
		return count, nil
	}
	count := 0
	for page, next := 0, ""; page == 0 || next != ""; page++ {
		var list v1alpha1.PodProtectorList
		if err := r.Live.List(ctx, &list, client.InNamespace(policy.Namespace), client.Limit(pageSize), client.Continue(next)); err != nil {
			return 0, fmt.Errorf("list PodProtectors from the API server: %w", err)
		}
		count, next = count+countDependentsIn(list.Items, policy), list.Continue
	}
	if count > 0 || r.Losses == nil {
		return count, nil
	}
	_, isLost := r.Losses.Find(func(last *v1alpha1.PodProtector) bool {
		return (policy.Namespace == "" || policy.Namespace == last.Namespace) && dependsOnPolicy(last, policy)
	})
	if isLost {
		count = 1
	}
	return count, nil
}

func countDependentsIn(protectors []v1alpha1.PodProtector, policy *policy.Policy) int {
	count := 0
	for i := range protectors {
		if dependsOnPolicy(&protectors[i], policy) {
			count++
		}
	}
	return count
}

// pageSize bounds how many protectors are read from the API server at once.
const pageSize = 500

// dependsOnPolicy reports whether a protector belongs to a policy, and its source was not yet reconciled after the end of that policy.
func dependsOnPolicy(protector *v1alpha1.PodProtector, p *policy.Policy) bool {
	origin, _ := policy.OriginOf(protector)
	return policy.IsGenerated(protector) && !isReleased(protector) && origin.Policy == p.String() && !origin.Removed && !isOrphaned(protector)
}

func policyKind(p *policy.Policy) schema.GroupVersionKind {
	if p.Namespace == "" {
		return v1alpha1.GroupVersion.WithKind(policy.ClusterPolicy)
	}
	return v1alpha1.GroupVersion.WithKind(policy.NamespacedPolicy)
}
