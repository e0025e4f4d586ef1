package webhookconfig

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestExemptionOf(t *testing.T) {
	path := RemovalPath("worker-1")
	hook := func(change func(*admissionregistrationv1.ValidatingWebhook)) admissionregistrationv1.ValidatingWebhookConfiguration {
		all := admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods", "pods/eviction"}}
		w := admissionregistrationv1.ValidatingWebhook{
			Name: "w", ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Path: &path}},
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"DELETE", "CREATE", "UPDATE"}, Rule: all}},
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system"}},
				{Key: v1alpha1.LabelExempt, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}},
			}},
		}
		if change != nil {
			change(&w)
		}
		return admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "breakwater"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{w}}
	}
	usual := hook(nil)
	protected := hook(func(w *admissionregistrationv1.ValidatingWebhook) {
		w.NamespaceSelector.MatchExpressions = append(w.NamespaceSelector.MatchExpressions, ProtectedRequirement())
	})
	for claim, c := range map[string]struct {
		configurations []admissionregistrationv1.ValidatingWebhookConfiguration
		namespace      map[string]string
		want           v1alpha1.Exemption
	}{
		"a usual namespace":           {[]admissionregistrationv1.ValidatingWebhookConfiguration{usual}, map[string]string{corev1.LabelMetadataName: "shop"}, ""},
		"kube-system":                 {[]admissionregistrationv1.ValidatingWebhookConfiguration{usual}, map[string]string{corev1.LabelMetadataName: "kube-system"}, v1alpha1.ExemptNamespaceSelector},
		"a namespace with the label":  {[]admissionregistrationv1.ValidatingWebhookConfiguration{usual}, map[string]string{corev1.LabelMetadataName: "shop", v1alpha1.LabelExempt: "true"}, v1alpha1.ExemptLabel},
		"the label with another text": {[]admissionregistrationv1.ValidatingWebhookConfiguration{usual}, map[string]string{corev1.LabelMetadataName: "shop", v1alpha1.LabelExempt: "false"}, ""},
		"no configuration":            {nil, map[string]string{corev1.LabelMetadataName: "shop"}, v1alpha1.ExemptNoWebhook},
		"a second webhook guards it": {[]admissionregistrationv1.ValidatingWebhookConfiguration{usual, hook(func(w *admissionregistrationv1.ValidatingWebhook) { w.NamespaceSelector = nil })},
			map[string]string{corev1.LabelMetadataName: "kube-system"}, ""},
		"a webhook for deletions only": {[]admissionregistrationv1.ValidatingWebhookConfiguration{hook(func(w *admissionregistrationv1.ValidatingWebhook) { w.Rules[0].Resources = []string{"pods"} })},
			map[string]string{corev1.LabelMetadataName: "shop"}, v1alpha1.ExemptNoWebhook},
		"a webhook that no eviction matches": {[]admissionregistrationv1.ValidatingWebhookConfiguration{hook(func(w *admissionregistrationv1.ValidatingWebhook) {
			w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		})}, map[string]string{corev1.LabelMetadataName: "shop"}, v1alpha1.ExemptNoWebhook},
		"a webhook for some namespaces": {[]admissionregistrationv1.ValidatingWebhookConfiguration{hook(func(w *admissionregistrationv1.ValidatingWebhook) {
			w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
		})}, map[string]string{corev1.LabelMetadataName: "shop", "team": "b"}, v1alpha1.ExemptNamespaceSelector},
		"a namespace without protectors": {[]admissionregistrationv1.ValidatingWebhookConfiguration{protected}, map[string]string{corev1.LabelMetadataName: "shop"}, v1alpha1.ExemptNotLabeled},
		"a namespace with protectors": {[]admissionregistrationv1.ValidatingWebhookConfiguration{protected},
			map[string]string{corev1.LabelMetadataName: "shop", v1alpha1.LabelProtected: "true"}, ""},
		"a namespace whose label has another text": {[]admissionregistrationv1.ValidatingWebhookConfiguration{protected},
			map[string]string{corev1.LabelMetadataName: "shop", v1alpha1.LabelProtected: "yes"}, v1alpha1.ExemptNotLabeled},
		"an exempt namespace without protectors": {[]admissionregistrationv1.ValidatingWebhookConfiguration{protected},
			map[string]string{corev1.LabelMetadataName: "shop", v1alpha1.LabelExempt: "true"}, v1alpha1.ExemptLabel},
		"kube-system without protectors": {[]admissionregistrationv1.ValidatingWebhookConfiguration{protected},
			map[string]string{corev1.LabelMetadataName: "kube-system"}, v1alpha1.ExemptNamespaceSelector},
		"a second webhook for all namespaces": {[]admissionregistrationv1.ValidatingWebhookConfiguration{protected, usual}, map[string]string{corev1.LabelMetadataName: "shop"}, ""},
		"the webhook of another cell": {[]admissionregistrationv1.ValidatingWebhookConfiguration{hook(func(w *admissionregistrationv1.ValidatingWebhook) {
			other := RemovalPath("worker-2")
			w.ClientConfig.Service.Path = &other
		})}, map[string]string{corev1.LabelMetadataName: "shop"}, v1alpha1.ExemptNoWebhook},
	} {
		t.Run(claim, func(t *testing.T) {
			got, detail := ExemptionOf("worker-1", c.namespace, c.configurations)
			if got != c.want || (detail == "") != (c.want == "") {
				t.Errorf("ExemptionOf() = %q, %q, want %q", got, detail, c.want)
			}
			if why, remedy := DescribeExemption(got, "shop", "worker-1"); got != "" && (why == "" || remedy == "") {
				t.Errorf("DescribeExemption(%s) = %q, %q, want a cause and a remedy", got, why, remedy)
			}
		})
	}
}
