package webhookconfig_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

func TestHooksReportSkippedRequests(t *testing.T) {
	path, ignore := webhookconfig.RemovalPath("here"), admissionregistrationv1.Ignore
	all := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{"*"},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods", "pods/eviction", "pods/resize", "pods/status"}},
	}
	exempt := metav1.LabelSelectorRequirement{Key: v1alpha1.LabelExempt, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}}
	for claim, c := range map[string]struct {
		change    func(*admissionregistrationv1.ValidatingWebhook)
		namespace map[string]string
		operation v1alpha1.Operation
		want      webhookconfig.Hook
	}{
		"a webhook that is called": {want: webhookconfig.Hook{}},
		"an exempt namespace": {
			namespace: map[string]string{v1alpha1.LabelExempt: "true"}, want: webhookconfig.Hook{SkipReason: "the namespace is labeled breakwater.dev/exempt=true"}},
		"a namespace that is not selected": {
			change: func(h *admissionregistrationv1.ValidatingWebhook) {
				h.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
			}, want: webhookconfig.Hook{SkipReason: "its namespaceSelector excludes the namespace: team=a"}},
		"an operation": {
			change: func(h *admissionregistrationv1.ValidatingWebhook) {
				h.Rules[0].Resources = []string{"pods", "pods/eviction"}
			},
			operation: v1alpha1.OperationResize, want: webhookconfig.Hook{SkipReason: "it is not called for UPDATE of pods/resize"}},
		"one of the ways to relabel": {
			change: func(h *admissionregistrationv1.ValidatingWebhook) {
				h.Rules[0].Resources = []string{"pods", "pods/eviction", "pods/resize"}
			},
			operation: v1alpha1.OperationRelabel, want: webhookconfig.Hook{SkipReason: "it is not called for UPDATE of pods/status"}},
		"evictions, by labels of pods": {
			change: func(h *admissionregistrationv1.ValidatingWebhook) {
				h.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
			}, operation: v1alpha1.OperationEvict, want: webhookconfig.Hook{SkipReason: "it has an objectSelector, which no eviction matches"}},
		"the failurePolicy": {
			change: func(h *admissionregistrationv1.ValidatingWebhook) {
				h.FailurePolicy = &ignore
				h.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "some"}}
			}, want: webhookconfig.Hook{FailurePolicy: "Ignore", Conditions: []string{"some"}}},
	} {
		t.Run(claim, func(t *testing.T) {
			hook := admissionregistrationv1.ValidatingWebhook{
				Name: "pods", Rules: []admissionregistrationv1.RuleWithOperations{*all.DeepCopy()},
				ClientConfig:      admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Path: &path}},
				NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{exempt}},
			}
			if c.change != nil {
				c.change(&hook)
			}
			operation := c.operation
			if operation == "" {
				operation = v1alpha1.OperationDelete
			}
			other := *hook.DeepCopy()
			*other.ClientConfig.Service.Path = webhookconfig.RemovalPath("another")
			configuration := admissionregistrationv1.ValidatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: "breakwater"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{other, hook},
			}
			c.want.Configuration, c.want.Name = "breakwater", "pods"
			if c.want.FailurePolicy == "" {
				c.want.FailurePolicy = "Fail"
			}
			got := webhookconfig.Hooks("here", operation, c.namespace, []admissionregistrationv1.ValidatingWebhookConfiguration{configuration})
			if diff := cmp.Diff([]webhookconfig.Hook{c.want}, got); diff != "" {
				t.Errorf("Hooks() (-want +got):\n%s", diff)
			}
		})
	}
}
