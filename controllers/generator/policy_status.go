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
)

// longestOverruled bounds the list of workloads to which another policy applies; longestNamed bounds the names in messages.
const (
	longestOverruled = 32
	longestNamed     = 5
)

// watch watches the kinds that a policy names, and returns a condition on which of them are not served. That is no error: the policy
// applies to the other kinds, and existing protectors stay.
func (r *PolicyReconciler) watch(ctx context.Context, p *policy.Policy) (metav1.Condition, error) {
	if p.Namespaces != nil {
		if err := r.Kinds.watchNamespaces(); err != nil {
			return metav1.Condition{}, err
		}
	}
	reason, problems := v1alpha1.ReasonKindsServed, []string{}
	for _, named := range p.Spec.Workloads.Kinds {
		err := r.Kinds.watch(ctx, policy.KindOf(named))
		switch {
		case err == nil:
		case errors.Is(err, errNotRunning):
			return metav1.Condition{}, err
		case ignoreUnserved(err) == nil:
			reason = v1alpha1.ReasonKindNotServed
			problems = append(problems, fmt.Sprintf("%s %s is not served: is its CustomResourceDefinition installed?", named.APIVersion, named.Kind))
		default:
			reason = cmp.Or(map[bool]string{true: reason}[reason == v1alpha1.ReasonKindNotServed], v1alpha1.ReasonKindNotListed)
			problems = append(problems, fmt.Sprintf("%s %s: %v", named.APIVersion, named.Kind, err))
		}
	}
	if len(problems) == 0 {
		return metav1.Condition{
			Type: v1alpha1.ConditionKindsServed, Status: metav1.ConditionTrue, Reason: reason, Message: "All kinds of the policy are watched.",
		}, nil
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionKindsServed, Status: metav1.ConditionFalse, Reason: reason,
		Message: clusters.Shorten(strings.Join(problems, "; ")+". Protectors of such workloads stay in force as they are.", 4096),
	}, nil
}

// count determines the status of a policy.
func (r *PolicyReconciler) count(ctx context.Context, object client.Object, p *policy.Policy) (v1alpha1.ProtectionPolicyStatus, error) {
	ranked, err := listPolicies(ctx, r.Client, p.Namespace)
	if err != nil {
		return v1alpha1.ProtectionPolicyStatus{}, err
	}
	applied, err := r.appliedTo(ctx, p)
	if err != nil {
		return v1alpha1.ProtectionPolicyStatus{}, err
	}
	status := v1alpha1.ProtectionPolicyStatus{ObservedGeneration: object.GetGeneration()}
	var lacking []string
	err = r.Kinds.each(ctx, p.Namespace, p.Spec.Workloads.Kinds, func(ref policy.Ref, source client.Object) error {
		if source.GetDeletionTimestamp() != nil || isPartOfAnother(ref, source) {
			return nil
		}
		candidate, err := r.Kinds.candidate(ctx, ref, source, ranked)
		if err != nil || !p.Selects(candidate) {
			return err
		}
		status.Selected++
		by := policy.Applies(ranked, candidate)
		switch {
		case policy.OptedOut(candidate.Labels):
			status.OptedOut++
		case by != nil && by.String() != p.String():
			status.Overruled++
			status.OverruledWorkloads = append(status.OverruledWorkloads, v1alpha1.OverruledWorkload{
				Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, By: by.String()})
		case applied[ref]:
			status.Applied++
		default:
			lacking = append(lacking, ref.Namespace+"/"+ref.Name)
		}
		return nil
	})
	slices.SortFunc(status.OverruledWorkloads, func(a, b v1alpha1.OverruledWorkload) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	status.OverruledWorkloads = status.OverruledWorkloads[:min(longestOverruled, len(status.OverruledWorkloads))]
	status.Conditions = []metav1.Condition{readiness(lacking)}
	return status, err
}

// readiness returns the condition on workloads that lack the protector of their policy. The workload's events state the reason.
func readiness(lacking []string) metav1.Condition {
	if len(lacking) == 0 {
		return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonApplied,
			Message: "All workloads that the policy applies to have their PodProtectors."}
	}
	slices.Sort(lacking)
	named := strings.Join(lacking[:min(longestNamed, len(lacking))], ", ")
	if len(lacking) > longestNamed {
		named += ", ..."
	}
	return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonApplying,
		Message: fmt.Sprintf("%d workloads have no PodProtector by this policy yet: %s. If that stays so, look at their events.", len(lacking), named)}
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
		earlier, seen := applied[ref]
		applied[ref] = (earlier || !seen) && policy.IsBy(&list.Items[i], p.OriginFor(ref.GroupKind()))
	}
	return applied, nil
}

// tell writes the status if it has changed, and emits an event when kinds become served or unserved.
func (r *PolicyReconciler) tell(ctx context.Context, object client.Object, status v1alpha1.ProtectionPolicyStatus, served metav1.Condition) error {
	changed, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("a copy of %T is none", object)
	}
	into, old := statusOf(changed), statusOf(object)
	conditions := into.Conditions
	for _, condition := range append(status.Conditions, served) {
		condition.ObservedGeneration = object.GetGeneration()
		meta.SetStatusCondition(&conditions, condition)
	}
	status.Conditions = conditions
	if equality.Semantic.DeepEqual(*old, status) {
		return nil
	}
	*into = status
	if err := r.Client.Status().Patch(ctx, changed, client.MergeFrom(object), client.FieldOwner(Name)); err != nil {
		return err
	}
	before := meta.FindStatusCondition(old.Conditions, served.Type)
	switch {
	case served.Status != metav1.ConditionTrue && (before == nil || before.Message != served.Message):
		r.Events.Eventf(object, nil, corev1.EventTypeWarning, served.Reason, "Watch", "%s", clusters.Note(served.Message))
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

// isOrphan reports whether a protector stays without its source.
func isOrphan(p *v1alpha1.PodProtector) bool {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved)
	return c != nil && c.Reason == v1alpha1.ReasonSourceVanished
}
