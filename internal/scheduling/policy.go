// Package scheduling adds what PodSchedulingPolicies ask for to pods and to templates of pods: which policies are for an object and in
// which order, what each of them adds and what contradicts it, and the JSON patch that does it.
//
// It works on JSON, so that what our types do not know stays as it is. It is pure: values in, values out.
package scheduling

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// The kinds of policies.
const (
	NamespacedPolicy = "PodSchedulingPolicy"
	ClusterPolicy    = "ClusterPodSchedulingPolicy"
)

// Ref names a policy.
type Ref struct {
	// Core is the core cluster that it is in.
	Core string
	// Namespace is empty for a ClusterPodSchedulingPolicy.
	Namespace, Name string
}

// String is the kind and name of the policy, as a message has it.
func (r Ref) String() string {
	if r.Namespace == "" {
		return ClusterPolicy + " " + r.Name
	}
	return NamespacedPolicy + " " + r.Namespace + "/" + r.Name
}

// Policy is a policy of either kind, ready to be applied. It never changes, so goroutines may share it.
type Policy struct {
	Ref
	Generation int64
	Spec       *v1alpha1.PodSchedulingPolicySpec

	// pods, protectors and namespaces choose nothing when they are nil; pods or protectors leave the choice to the other one.
	pods, protectors, namespaces *selectors.Selector
	// criteria are those of the spec as JSON, field by field.
	criteria map[string]any
}

// Compile reads a policy of either kind of a core cluster. The error tells which of its selectors is malformed, which the schema of the
// policy refuses.
func Compile(core string, object metav1.Object) (*Policy, error) {
	p := &Policy{Ref: Ref{Core: core, Namespace: object.GetNamespace(), Name: object.GetName()}, Generation: object.GetGeneration()}
	var namespaces *v1alpha1.PodSelector
	switch policy := object.(type) {
	case *v1alpha1.PodSchedulingPolicy:
		p.Spec = &policy.Spec
	case *v1alpha1.ClusterPodSchedulingPolicy:
		p.Namespace, p.Spec, namespaces = "", &policy.Spec.PodSchedulingPolicySpec, policy.Spec.NamespaceSelector
	default:
		return nil, fmt.Errorf("a %T is no policy", object)
	}
	for _, each := range []struct {
		field string
		from  *v1alpha1.PodSelector
		to    **selectors.Selector
	}{
		{"podSelector", p.Spec.PodSelector, &p.pods},
		{"protectorSelector", p.Spec.ProtectorSelector, &p.protectors},
		{"namespaceSelector", namespaces, &p.namespaces},
	} {
		if each.from == nil {
			continue
		}
		compiled, err := selectors.Compile(*each.from)
		if err != nil {
			return nil, fmt.Errorf("spec.%s: %w", each.field, err)
		}
		*each.to = compiled
	}
	var err error
	if p.criteria, err = fieldsOf(p.Spec.SchedulingCriteria); err != nil {
		return nil, fmt.Errorf("read what %s adds: %w", p, err)
	}
	return p, nil
}

// rejects tells whether a pod that contradicts the policy is refused.
func (p *Policy) rejects() bool { return p.Spec.ConflictPolicy == v1alpha1.ConflictReject }
