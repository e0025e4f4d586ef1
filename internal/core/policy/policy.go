package policy

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// The kinds of policies.
const (
	NamespacedPolicy = "ProtectionPolicy"
	ClusterPolicy    = "ClusterProtectionPolicy"
)

// Policy is a ProtectionPolicy or a ClusterProtectionPolicy.
type Policy struct {
	// Namespace is empty for a ClusterProtectionPolicy.
	Namespace, Name string
	Created         time.Time
	// Deleted reports whether the policy's deletion has begun.
	Deleted bool
	// HasFinalizer reports whether the policy has the finalizer by which the generator sees its deletion. Until then it applies to no workload.
	HasFinalizer bool
	// OwnerReferences are the owners with which the garbage collector deletes the policy.
	OwnerReferences []metav1.OwnerReference
	// Namespaces is the namespace selector of a ClusterProtectionPolicy.
	Namespaces *v1alpha1.PodSelector
	Spec       *v1alpha1.ProtectionPolicySpec
}

// NewPolicy converts an object of either kind to a Policy. It returns nil for any other object.
func NewPolicy(object metav1.Object) *Policy {
	p := &Policy{
		Namespace: object.GetNamespace(), Name: object.GetName(), Created: object.GetCreationTimestamp().Time,
		Deleted: object.GetDeletionTimestamp() != nil, HasFinalizer: slices.Contains(object.GetFinalizers(), v1alpha1.FinalizerPolicy),
		OwnerReferences: object.GetOwnerReferences(),
	}
	switch policy := object.(type) {
	case *v1alpha1.ProtectionPolicy:
		p.Spec = &policy.Spec
	case *v1alpha1.ClusterProtectionPolicy:
		p.Namespace, p.Namespaces, p.Spec = "", policy.Spec.NamespaceSelector, &policy.Spec.ProtectionPolicySpec
	default:
		return nil
	}
	return p
}

// String returns the name of the policy, unique among the policies that can select one workload.
func (p *Policy) String() string {
	if p.Namespace == "" {
		return ClusterPolicy + "/" + p.Name
	}
	return NamespacedPolicy + "/" + p.Name
}

// Candidate has the properties of a workload that policies select by.
type Candidate struct {
	Ref
	Labels map[string]string
	// NamespaceLabels are the labels of the workload's namespace.
	NamespaceLabels map[string]string
}

// Selects reports whether a policy selects a workload, regardless of other policies and of the workload's own label.
func (p *Policy) Selects(c Candidate) bool {
	if p.Namespace != "" && p.Namespace != c.Namespace {
		return false
	}
	_, named := p.workloadKind(c.GroupKind())
	return named && matches(p.Spec.Workloads.Selector, c.Labels) && matches(p.Namespaces, c.NamespaceLabels)
}

// workloadKind returns the policy's entry for a kind.
func (p *Policy) workloadKind(of schema.GroupKind) (v1alpha1.WorkloadKind, bool) {
	at := slices.IndexFunc(p.Spec.Workloads.Kinds, func(k v1alpha1.WorkloadKind) bool { return KindOf(k).GroupKind() == of })
	if at < 0 {
		return v1alpha1.WorkloadKind{}, false
	}
	return p.Spec.Workloads.Kinds[at], true
}

// KindOf returns the kind that an entry of a policy names.
func KindOf(k v1alpha1.WorkloadKind) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(k.APIVersion, k.Kind)
}

// OriginFor returns the origin of the protectors that a policy creates for workloads of a kind.
func (p *Policy) OriginFor(kind schema.GroupKind) Origin {
	named, _ := p.workloadKind(kind)
	return Origin{Policy: p.String(), Record: Record{ProtectionRule: p.Spec.ProtectionRule, TemplatePath: named.TemplatePath}}
}

// matches reports whether labels match a selector. A nil selector matches all labels. A malformed selector, which the API server
// rejects, matches none.
func matches(selector *v1alpha1.PodSelector, of map[string]string) bool {
	if selector == nil {
		return true
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector.LabelSelector())
	return err == nil && parsed.Matches(labels.Set(of))
}

// SortByPrecedence sorts policies by precedence: namespaced policies before cluster policies, then higher priority first, then older first, then
// by name.
func SortByPrecedence(policies []*Policy) {
	slices.SortFunc(policies, func(a, b *Policy) int {
		return cmp.Or(
			cmp.Compare(precedence(a), precedence(b)),
			cmp.Compare(b.Spec.Priority, a.Spec.Priority),
			a.Created.Compare(b.Created),
			cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Namespace, b.Namespace),
		)
	})
}

func precedence(p *Policy) int {
	if p.Namespace == "" {
		return 1
	}
	return 0
}

// Select returns the policy that applies to a workload. ranked must be sorted by SortByPrecedence. It returns nil if none applies.
func Select(ranked []*Policy, c Candidate) *Policy {
	for _, p := range ranked {
		if p.HasFinalizer && !p.Deleted && p.Selects(c) {
			return p
		}
	}
	return nil
}
