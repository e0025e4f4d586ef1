package webhookconfig

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Scope is the set of namespaces for which an API server calls the webhook for removals, apart from exempt namespaces.
type Scope string

const (
	// ScopeAll is all namespaces. Without an answer of the webhook, all their removals are denied. It is the default.
	ScopeAll Scope = "All"
	// ScopeProtected is the namespaces with LabelProtected, which are those with protectors.
	ScopeProtected Scope = "Protected"
)

// ProtectedRequirement returns the requirement by which a selector of namespaces has the scope Protected.
func ProtectedRequirement() metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: v1alpha1.LabelProtected, Operator: metav1.LabelSelectorOpIn, Values: []string{"true"}}
}

func isProtectedScope(r metav1.LabelSelectorRequirement) bool {
	want := ProtectedRequirement()
	return r.Key == want.Key && r.Operator == want.Operator && slices.Equal(r.Values, want.Values)
}

// HasProtectedScope reports whether every webhook for removals in the cell is called only for namespaces with LabelProtected. Their coverage
// then depends on a label, which a policy must keep.
func HasProtectedScope(cell string, configurations []admissionregistrationv1.ValidatingWebhookConfiguration) bool {
	hooks := CellWebhooks(cell, configurations)
	return len(hooks) > 0 && !slices.ContainsFunc(hooks, func(w Webhook) bool {
		return w.NamespaceSelector == nil || !slices.ContainsFunc(w.NamespaceSelector.MatchExpressions, isProtectedScope)
	})
}

// claimPrefix begins the field managers of all aggregators of a cell. The name of a cell contains no dot.
func claimPrefix(cell string) string { return "breakwater-aggregator." + cell + "." }

// ClaimManager returns the field manager with which the aggregators of a cell own LabelProtected on behalf of one core. core is the UID of the
// core's namespace kube-system. The API server removes the label when its last owner releases it, so several cores need no knowledge of each other.
func ClaimManager(cell, core string) string { return claimPrefix(cell) + core }

// ProtectedName returns the name of the policy, and of its binding, that keeps LabelProtected.
func ProtectedName(cell string) string { return "breakwater-protected-" + cell }

// DefaultAggregators returns the group of the accounts in the namespace of Breakwater where none is configured.
func DefaultAggregators() []string { return []string{"system:serviceaccounts:" + DefaultNamespace} }

// ProtectedPolicy returns a policy by which the API server of a cluster denies removing LabelProtected from a namespace that an aggregator of the
// cell owns it on: leaving coverage is a removal (rule 14). aggregators are the users and groups of the aggregators, which release it.
func ProtectedPolicy(cell string, aggregators []string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	fail := admissionregistrationv1.Fail
	label := "metadata.?labels[?" + strconv.Quote(v1alpha1.LabelProtected) + "].orValue('')"
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: ProtectedName(cell)},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"namespaces", "namespaces/status", "namespaces/finalize"},
					},
				},
			}}},
			MatchConditions: []admissionregistrationv1.MatchCondition{
				{Name: "loses-the-label", Expression: "oldObject." + label + " == 'true' && object." + label + " != 'true'"},
				{Name: "is-not-an-aggregator", Expression: fmt.Sprintf("!(['%s'].exists(n, n == request.userInfo.username || n in request.userInfo.?groups.orValue([])))",
					strings.Join(aggregators, "', '"))},
			},
			Validations: []admissionregistrationv1.Validation{{
				Expression: fmt.Sprintf("!oldObject.metadata.?managedFields.orValue([]).exists(m, m.manager.startsWith('%s'))", claimPrefix(cell)),
				Message: fmt.Sprintf("the namespace has PodProtectors, and the label %s makes the API server call the Breakwater webhook: keep the label; "+
					"in an emergency, exempt the namespace with the label %s=true", v1alpha1.LabelProtected, v1alpha1.LabelExempt),
			}},
		},
	}
}

// ProtectedBinding returns the binding that enforces the policy.
func ProtectedBinding(cell string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return bindingOf(ProtectedName(cell))
}

// KeepsProtected reports whether a policy and its binding keep LabelProtected. A nil policy or binding does not exist.
func KeepsProtected(
	cell string, policy *admissionregistrationv1.ValidatingAdmissionPolicy, binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding,
) bool {
	want := ProtectedPolicy(cell, nil)
	loses, isForeign := want.Spec.MatchConditions[0], want.Spec.MatchConditions[1]
	return isEnforced(want, policy, binding, func(c admissionregistrationv1.MatchCondition) bool {
		return c == loses || c.Name == isForeign.Name // which accounts are aggregators differs
	})
}
