package generator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// maxOverruled bounds the list of workloads to which another policy applies; maxNamed bounds the names in messages.
const (
	maxOverruled = 32
	maxNamed     = 5
)

// watchKinds watches the kinds that a policy names, and returns a condition on which of them are not served. That is no error: the policy
// applies to the other kinds, and existing protectors stay.
func (r *PolicyReconciler) watchKinds(ctx context.Context, p *policy.Policy) (metav1.Condition, error) {
	if p.Namespaces != nil {
		if err := r.Kinds.watchNamespaces(); err != nil {
			return metav1.Condition{}, err
		}
	}
	reason, problems := v1alpha1.ReasonKindsServed, []string{}
	for _, workloadKind := range p.Spec.Workloads.Kinds {
		err := r.Kinds.watchKind(ctx, policy.KindOf(workloadKind))
		switch {
		case err == nil:
		case errors.Is(err, errNotRunning):
			return metav1.Condition{}, err
		case ignoreNotServed(err) == nil:
			reason = v1alpha1.ReasonKindNotServed
			problems = append(problems, fmt.Sprintf("%s %s is not served: install its CustomResourceDefinition", workloadKind.APIVersion, workloadKind.Kind))
		default:
			reason = cmp.Or(map[bool]string{true: reason}[reason == v1alpha1.ReasonKindNotServed], v1alpha1.ReasonKindNotListed)
			problems = append(problems, fmt.Sprintf("%s %s: %v", workloadKind.APIVersion, workloadKind.Kind, err))
		}
	}
	if len(problems) == 0 {
		return metav1.Condition{
			Type: v1alpha1.ConditionKindsServed, Status: metav1.ConditionTrue, Reason: reason, Message: "All kinds of the policy are watched.",
		}, nil
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionKindsServed, Status: metav1.ConditionFalse, Reason: reason,
		Message: clusters.Truncate(strings.Join(problems, "; ")+". Existing PodProtectors of these workloads stay in force unchanged.", 4096),
	}, nil
}

func (r *PolicyReconciler) computeStatus(ctx context.Context, object client.Object, p *policy.Policy) (v1alpha1.ProtectionPolicyStatus, error) {
	ranked, err := listPolicies(ctx, r.Client, p.Namespace)
	if err != nil {
		return v1alpha1.ProtectionPolicyStatus{}, err
	}
	applied, err := r.appliedTo(ctx, p)
	if err != nil {
		return v1alpha1.ProtectionPolicyStatus{}, err
	}
	status := v1alpha1.ProtectionPolicyStatus{ObservedGeneration: object.GetGeneration()}
	var unprotected []string
	err = r.Kinds.forEachSource(ctx, p.Namespace, p.Spec.Workloads.Kinds, func(ref policy.Ref, source client.Object) error {
		if source.GetDeletionTimestamp() != nil {
			return nil
		}
		candidate, err := candidateOf(ctx, ref, source, ranked, r.Kinds.watches.namespaceLabels)
		if err != nil || !p.Selects(candidate) {
			return err
		}
		if replaced, err := r.Kinds.isReplaced(ctx, ref, source); err != nil || replaced {
			return err
		}
		status.Selected++
		effective := policy.Select(ranked, candidate)
		switch {
		case policy.OptedOut(candidate.Labels):
			status.OptedOut++
		case effective != nil && effective.String() != p.String():
			status.Overruled++
			status.OverruledWorkloads = append(status.OverruledWorkloads, v1alpha1.OverruledWorkload{
				Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, By: effective.String()})
		case applied[ref]:
			status.Applied++
		default:
			unprotected = append(unprotected, ref.Namespace+"/"+ref.Name)
		}
		return nil
	})
	slices.SortFunc(status.OverruledWorkloads, func(a, b v1alpha1.OverruledWorkload) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	status.OverruledWorkloads = status.OverruledWorkloads[:min(maxOverruled, len(status.OverruledWorkloads))]
	status.Conditions = []metav1.Condition{readyCondition(unprotected)}
	return status, err
}

// readyCondition returns the condition on workloads that lack the protector of their policy. The workload's events state the reason.
func readyCondition(unprotected []string) metav1.Condition {
	if len(unprotected) == 0 {
		return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonApplied,
			Message: "All workloads to which the policy applies have PodProtectors."}
	}
	slices.Sort(unprotected)
	named := strings.Join(unprotected[:min(maxNamed, len(unprotected))], ", ")
	if len(unprotected) > maxNamed {
		named += ", ..."
	}
	return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonApplying,
		Message: fmt.Sprintf("The policy has no PodProtector yet for %s: %s. If this persists, check their events.",
			printable.Count(len(unprotected), "workload"), named)}
}

// appliedTo returns the sources whose protectors match a policy in its current version.
func (r *PolicyReconciler) appliedTo(ctx context.Context, p *policy.Policy) (map[policy.Ref]bool, error) {
	var list v1alpha1.PodProtectorList
	err := r.Client.List(ctx, &list, client.InNamespace(p.Namespace), client.MatchingFields{policyIndex: p.String()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list PodProtectors: %w", err)
	}
	applied := map[policy.Ref]bool{}
	for i := range list.Items {
		ref, _, ok := policy.SourceOf(&list.Items[i])
		if !ok {
			continue
		}
		isApplied, seen := applied[ref]
		applied[ref] = (isApplied || !seen) && policy.HasOrigin(&list.Items[i], p.OriginFor(ref.GroupKind()))
	}
	return applied, nil
}

// updateStatus writes the status if it has changed, and emits an event when kinds become served or unserved.
func (r *PolicyReconciler) updateStatus(ctx context.Context, object client.Object, status v1alpha1.ProtectionPolicyStatus, served metav1.Condition) error {
	changed := object.DeepCopyObject().(client.Object)
	newStatus, oldStatus := statusOf(changed), statusOf(object)
	conditions := newStatus.Conditions
	for _, condition := range append(status.Conditions, served) {
		condition.ObservedGeneration = object.GetGeneration()
		meta.SetStatusCondition(&conditions, condition)
	}
	status.Conditions = conditions
	if equality.Semantic.DeepEqual(*oldStatus, status) {
		return nil
	}
	*newStatus = status
	if err := r.Client.Status().Patch(ctx, changed, client.MergeFrom(object), client.FieldOwner(Name)); err != nil {
		return err
	}
	before := meta.FindStatusCondition(oldStatus.Conditions, served.Type)
	switch {
	case served.Status != metav1.ConditionTrue && (before == nil || before.Message != served.Message):
		r.Events.Eventf(object, nil, corev1.EventTypeWarning, served.Reason, "Watch", "%s", clusters.EventNote(served.Message))
	case served.Status == metav1.ConditionTrue && before != nil && before.Status != served.Status:
		r.Events.Eventf(object, nil, corev1.EventTypeNormal, served.Reason, "Watch", "%s", served.Message)
	}
	return nil
}

func statusOf(policy client.Object) *v1alpha1.ProtectionPolicyStatus {
	switch policy := policy.(type) {
	case *v1alpha1.ProtectionPolicy:
		return &policy.Status
	case *v1alpha1.ClusterProtectionPolicy:
		return &policy.Status
	default:
		return &v1alpha1.ProtectionPolicyStatus{}
	}
}

// isOrphaned reports whether a protector stays without its source.
func isOrphaned(p *v1alpha1.PodProtector) bool {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved)
	return c != nil && c.Reason == v1alpha1.ReasonSourceVanished
}
