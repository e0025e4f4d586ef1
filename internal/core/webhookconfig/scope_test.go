package webhookconfig

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestHasProtectedScope(t *testing.T) {
	hook := func(cell string, selector *metav1.LabelSelector) admissionregistrationv1.ValidatingWebhookConfiguration {
		url := "https://b:9443" + RemovalPath(cell)
		return admissionregistrationv1.ValidatingWebhookConfiguration{Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url}, NamespaceSelector: selector,
		}}}
	}
	protected := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{ProtectedRequirement()}}
	for claim, c := range map[string]struct {
		configurations []admissionregistrationv1.ValidatingWebhookConfiguration
		want           bool
	}{
		"none":                        {nil, false},
		"for all namespaces":          {[]admissionregistrationv1.ValidatingWebhookConfiguration{hook("a", nil)}, false},
		"for labeled namespaces":      {[]admissionregistrationv1.ValidatingWebhookConfiguration{hook("a", protected)}, true},
		"another one for all of them": {[]admissionregistrationv1.ValidatingWebhookConfiguration{hook("a", protected), hook("a", nil)}, false},
		"another cell's for all":      {[]admissionregistrationv1.ValidatingWebhookConfiguration{hook("a", protected), hook("b", nil)}, true},
	} {
		if got := HasProtectedScope("a", c.configurations); got != c.want {
			t.Errorf("%s: HasProtectedScope() = %v, want %v", claim, got, c.want)
		}
	}
}

func TestKeepsProtected(t *testing.T) {
	for claim, c := range map[string]struct {
		change func(*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding)
		want   bool
	}{
		"as printed": {func(*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
		}, true},
		"not for the finalizers": {func(p *admissionregistrationv1.ValidatingAdmissionPolicy, _ *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
			p.Spec.MatchConstraints.ResourceRules[0].Resources = []string{"namespaces", "namespaces/status"}
		}, false},
		"a condition that never holds": {func(p *admissionregistrationv1.ValidatingAdmissionPolicy, _ *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
			p.Spec.MatchConditions[0].Expression = "false"
		}, false},
		"a foreign condition": {func(p *admissionregistrationv1.ValidatingAdmissionPolicy, _ *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
			p.Spec.MatchConditions = append(p.Spec.MatchConditions, admissionregistrationv1.MatchCondition{Name: "not-me", Expression: "true"})
		}, false},
		"the claims of another cell": {func(p *admissionregistrationv1.ValidatingAdmissionPolicy, _ *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
			p.Spec.Validations = ProtectedPolicy("b", nil).Spec.Validations
		}, false},
		"a binding that only warns": {func(_ *admissionregistrationv1.ValidatingAdmissionPolicy, b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
			b.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}
		}, false},
	} {
		policy, binding := ProtectedPolicy("a", DefaultAggregators()), ProtectedBinding("a")
		c.change(policy, binding)
		if got := KeepsProtected("a", policy, binding); got != c.want {
			t.Errorf("%s: KeepsProtected() = %v, want %v", claim, got, c.want)
		}
	}
	if KeepsProtected("a", nil, ProtectedBinding("a")) || KeepsProtected("a", ProtectedPolicy("a", nil), nil) {
		t.Error("KeepsProtected() of a missing object = true, want false")
	}
}
