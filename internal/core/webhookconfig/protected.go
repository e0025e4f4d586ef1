package webhookconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Scope says in which namespaces an API server asks the webhook about removals.
type Scope string

// The scopes. Namespaces that are exempt are in none.
const (
	// ScopeAll is all namespaces: while no webhook answers, no pod can be removed.
	ScopeAll Scope = "All"
	// ScopeProtected is the namespaces with the label v1alpha1.LabelProtected.
	ScopeProtected Scope = "Protected"
)

// ProtectedRequirement returns the requirement that ScopeProtected adds to a namespaceSelector.
func ProtectedRequirement() metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: v1alpha1.LabelProtected, Operator: metav1.LabelSelectorOpIn, Values: []string{"true"}}
}

func isProtectedRequirement(r metav1.LabelSelectorRequirement) bool {
	want := ProtectedRequirement()
	return r.Key == want.Key && r.Operator == want.Operator && slices.Equal(r.Values, want.Values)
}

// DependsOnProtectedLabel reports whether a webhook for the cell selects namespaces by the label of namespaces with protectors.
func DependsOnProtectedLabel(cell string, configurations []admissionregistrationv1.ValidatingWebhookConfiguration) bool {
	return slices.ContainsFunc(CellWebhooks(cell, configurations), func(w Webhook) bool {
		return w.NamespaceSelector != nil && slices.ContainsFunc(w.NamespaceSelector.MatchExpressions, isProtectedRequirement)
	})
}

// withProtectedLabel returns a copy of labels with the label of namespaces with protectors.
func withProtectedLabel(labels map[string]string) map[string]string {
	labeled := map[string]string{}
	maps.Copy(labeled, labels)
	labeled[v1alpha1.LabelProtected] = "true"
	return labeled
}

// releasing is the suffix of a core in v1alpha1.AnnotationProtectedBy whose last protector of the namespace is gone.
const releasing = ":releasing"

// ProtectedBy is a parsed v1alpha1.AnnotationProtectedBy: whether the label is needed, by the UIDs of cores. It is not needed by a core that
// is releasing it. A core releases the label in two writes. An aggregator that finds a new protector between the two first takes its core's
// release back, by compare-and-swap on the namespace. So a label is never removed after an aggregator has confirmed it for a protector.
type ProtectedBy map[string]bool

// ParseProtectedBy parses the annotation of a namespace.
func ParseProtectedBy(annotation string) ProtectedBy {
	by := ProtectedBy{}
	for item := range strings.SplitSeq(annotation, ",") {
		if core, isReleasing := strings.CutSuffix(strings.TrimSpace(item), releasing); core != "" {
			by[core] = !isReleasing
		}
	}
	return by
}

// String returns the annotation. Its order does not depend on that of earlier writes.
func (by ProtectedBy) String() string {
	var items []string
	for _, core := range slices.Sorted(maps.Keys(by)) {
		if !by[core] {
			core += releasing
		}
		items = append(items, core)
	}
	return strings.Join(items, ",")
}

// ProtectedName returns the name of the policy, and of its binding, that keeps the label of namespaces with protectors. It holds for all namespaces
// of the cell's cluster. Each cell has its own, because several releases of the chart can serve cells of one cluster.
func ProtectedName(cell string) string { return "breakwater-protected-" + cell }

const (
	protectedLabel      = "metadata.?labels[?'" + v1alpha1.LabelProtected + "']"
	protectedAnnotation = "metadata.?annotations[?'" + v1alpha1.AnnotationProtectedBy + "']"
	// keepsLabel is true for an update that keeps the annotation, and also the label if a core needs it.
	keepsLabel = "object." + protectedAnnotation + " == oldObject." + protectedAnnotation + " && (oldObject." + protectedAnnotation +
		".orValue('') == '' || object." + protectedLabel + " == oldObject." + protectedLabel + ")"
)

// keepsOthers is true for an update that changes no other label, or annotation, than that of Breakwater.
func keepsOthers(field, own string) string {
	before, after := "oldObject.metadata.?"+field+".orValue({})", "object.metadata.?"+field+".orValue({})"
	return after + ".all(k, k == '" + own + "' || k in " + before + " && " + before + "[k] == " + after + "[k]) && " +
		before + ".all(k, k == '" + own + "' || k in " + after + ")"
}

// ProtectedPolicy returns a policy by which the API server of a cluster denies removals of the label by users other than the aggregators:
// leaving coverage is a removal (rule 14). It restricts the aggregators to that label and its annotation, because labels of namespaces also
// decide about other things, such as which pods may be privileged.
func ProtectedPolicy(cell string, aggregators []string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	policy := newPolicy(ProtectedName(cell), "namespaces", "namespaces/status", "namespaces/finalize")
	isAggregator := isUserIn + "'" + strings.Join(aggregators, "', '") + "'])"
	policy.Spec.Validations = []admissionregistrationv1.Validation{
		{
			Expression: isAggregator + " || " + keepsLabel,
			Message: fmt.Sprintf("PodProtectors are in force in this namespace: only Breakwater's aggregator removes the label %s and the annotation %s, "+
				"after the last PodProtector. In an emergency, label the namespace %s=true", v1alpha1.LabelProtected, v1alpha1.AnnotationProtectedBy, v1alpha1.LabelExempt),
		},
		{
			Expression: "!" + isAggregator + " || " + keepsOthers("labels", v1alpha1.LabelProtected) + " && " +
				keepsOthers("annotations", v1alpha1.AnnotationProtectedBy),
			Message: fmt.Sprintf("Breakwater's aggregator may change only the label %s and the annotation %s of a namespace",
				v1alpha1.LabelProtected, v1alpha1.AnnotationProtectedBy),
		},
	}
	return policy
}

// isUserIn begins an expression that compares the user with a list.
const isUserIn = "(request.userInfo.username in ["

// ProtectedBinding returns the binding that enforces the policy.
func ProtectedBinding(cell string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return newBinding(ProtectedName(cell))
}

// EnforcesProtected reports whether a policy and its binding keep the label, for any aggregators. A nil policy or binding does not exist.
func EnforcesProtected(
	policy *admissionregistrationv1.ValidatingAdmissionPolicy, binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding,
) bool {
	return enforces(ProtectedPolicy("", nil), policy, binding, func(got, want string) bool {
		_, rules, _ := strings.Cut(want, "])")
		begins, rest, found := strings.Cut(got, "])")
		return found && rest == rules && strings.HasPrefix(strings.TrimPrefix(begins, "!"), isUserIn) && begins[0] == want[0]
	})
}

// IsAggregatorUser reports whether a user name can be in the policy: it would otherwise change the expressions.
func IsAggregatorUser(name string) bool {
	return name != "" && !strings.ContainsAny(name, "'\"\\[]\n\r")
}
