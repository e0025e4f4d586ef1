// Package scheduling adds the scheduling criteria of PodSchedulingPolicies to pods and to pod templates. It determines which policies
// apply to an object and in which order, what each of them adds, what contradicts it, and the JSON patch.
//
// It operates on JSON, so that fields unknown to our types stay unchanged. It is pure.
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

// Ref identifies a policy.
type Ref struct {
	// Core is the core cluster of the policy.
	Core string
	// Namespace is empty for a ClusterPodSchedulingPolicy.
	Namespace, Name string
}

// String returns the kind and name of the policy, for messages.
func (r Ref) String() string {
	if r.Namespace == "" {
		return ClusterPolicy + " " + r.Name
	}
	return NamespacedPolicy + " " + r.Namespace + "/" + r.Name
}

// Policy is a compiled policy of either kind. It is immutable, so goroutines may share it.
type Policy struct {
	Ref
	Generation int64
	Spec       *v1alpha1.PodSchedulingPolicySpec

	// pods, protectors and namespaces select nothing if they are nil, except that nil pods or nil protectors leave the selection to the
	// other.
	pods, protectors, namespaces *selectors.Selector
	// criteria are the scheduling criteria of the spec as JSON fields.
	criteria map[string]any
}

// Compile compiles a policy of either kind from a core cluster. It returns an error that names the malformed selector, which the
// schema of the policy rejects.
func Compile(core string, object metav1.Object) (*Policy, error) {
	p := &Policy{Ref: Ref{Core: core, Namespace: object.GetNamespace(), Name: object.GetName()}, Generation: object.GetGeneration()}
	var namespaces *v1alpha1.PodSelector
	switch policy := object.(type) {
	case *v1alpha1.PodSchedulingPolicy:
		p.Spec = &policy.Spec
	case *v1alpha1.ClusterPodSchedulingPolicy:
		p.Namespace, p.Spec, namespaces = "", &policy.Spec.PodSchedulingPolicySpec, policy.Spec.NamespaceSelector
	default:
		return nil, fmt.Errorf("type %T is not a scheduling policy", object)
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
		return nil, fmt.Errorf("convert the scheduling criteria of %s: %w", p, err)
	}
	return p, nil
}

// rejectsConflicts reports whether a pod that contradicts the policy is denied.
func (p *Policy) rejectsConflicts() bool { return p.Spec.ConflictPolicy == v1alpha1.ConflictReject }
