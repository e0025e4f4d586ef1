package webhookconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// LabelsName returns the name of the policy, and of its binding, that makes the labels of a cell's pods immutable.
func LabelsName(cell string) string { return "breakwater-cell-" + cell }

// LabelPolicy returns a policy by which the API server of a cluster denies changes of the labels by which a selector chooses the pods
// of a cell. A pod that moved from one cell to another would be counted in both for a while, and its removal charged to neither.
func LabelPolicy(cell string, selector *v1alpha1.PodSelector) *admissionregistrationv1.ValidatingAdmissionPolicy {
	policy := newPolicy(LabelsName(cell), "pods", "pods/status", "pods/ephemeralcontainers", "pods/resize")
	for _, key := range keysOf(selector) {
		label := "metadata.?labels[?" + strconv.Quote(key) + "]"
		policy.Spec.Validations = append(policy.Spec.Validations, admissionregistrationv1.Validation{
			Expression: "object." + label + " == oldObject." + label,
			Message:    fmt.Sprintf("the label %s says which Breakwater cell a pod belongs to and cannot be changed: delete the pod and create another", key),
		})
	}
	return policy
}

// LabelBinding returns the binding that enforces the policy.
func LabelBinding(cell string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return newBinding(LabelsName(cell))
}

// newPolicy returns a policy without validations for updates of resources of the core API group.
func newPolicy(name string, resources ...string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	fail := admissionregistrationv1.Fail
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: resources},
				},
			}}},
		},
	}
}

// newBinding returns the binding, of the same name, that enforces a policy.
func newBinding(name string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
}

// EnforcesLabels reports whether a policy and its binding make the labels that a selector uses immutable. A nil policy or binding does
// not exist.
func EnforcesLabels(
	cell string, selector *v1alpha1.PodSelector,
	policy *admissionregistrationv1.ValidatingAdmissionPolicy, binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding,
) bool {
	return enforces(LabelPolicy(cell, selector), policy, binding, func(got, want string) bool { return got == want })
}

// enforces reports whether a policy and its binding deny what the wanted policy denies. isSame compares expressions with wanted ones. A nil
// policy or binding does not exist.
func enforces(
	want, policy *admissionregistrationv1.ValidatingAdmissionPolicy, binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding,
	isSame func(got, want string) bool,
) bool {
	if policy == nil || binding == nil {
		return false
	}
	for _, validation := range want.Spec.Validations {
		if !slices.ContainsFunc(policy.Spec.Validations, func(v admissionregistrationv1.Validation) bool { return isSame(v.Expression, validation.Expression) }) {
			return false
		}
	}
	constraints := policy.Spec.MatchConstraints
	if constraints == nil || len(constraints.ResourceRules) == 0 || len(policy.Spec.MatchConditions) > 0 || len(constraints.ExcludeResourceRules) > 0 ||
		selects(constraints.NamespaceSelector) || selects(constraints.ObjectSelector) || policy.Spec.ParamKind != nil {
		return false
	}
	rule := constraints.ResourceRules[0]
	for _, resource := range want.Spec.MatchConstraints.ResourceRules[0].Resources {
		if len(rule.ResourceNames) > 0 || !podOperation(admissionregistrationv1.Update, resource).isCoveredBy(rule.RuleWithOperations) {
			return false
		}
	}
	fails := policy.Spec.FailurePolicy == nil || *policy.Spec.FailurePolicy == admissionregistrationv1.Fail
	return fails && binding.Spec.PolicyName == policy.Name && binding.Spec.MatchResources == nil &&
		slices.Contains(binding.Spec.ValidationActions, admissionregistrationv1.Deny)
}

func selects(s *metav1.LabelSelector) bool {
	return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0
}

func keysOf(selector *v1alpha1.PodSelector) []string {
	keys := slices.Collect(maps.Keys(selector.MatchLabels))
	for _, expression := range selector.MatchExpressions {
		keys = append(keys, expression.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
