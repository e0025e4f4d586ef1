package webhookconfig_test

import (
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/webhook/register"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

type configuration = admissionregistrationv1.ValidatingWebhookConfiguration

// configured returns the generated configuration for a cell.
func configured(t *testing.T, change func(*register.Options)) configuration {
	t.Helper()
	options := register.Options{
		Name: "breakwater", Cell: "a", Endpoint: register.Endpoint{URL: "https://b:9443"}, TimeoutSeconds: 10,
		ExemptNamespaces: webhookconfig.DefaultExemptNamespaces(),
	}
	change(&options)
	c, err := register.Configuration(options)
	if err != nil {
		t.Fatal(err)
	}
	return *c
}

func TestWeaknesses(t *testing.T) {
	hook := func(change func(*admissionregistrationv1.ValidatingWebhook)) configuration {
		c := configured(t, func(*register.Options) {})
		change(&c.Webhooks[0])
		return c
	}
	ignore := admissionregistrationv1.Ignore
	require := func(key string, operator metav1.LabelSelectorOperator, values ...string) configuration {
		return hook(func(h *admissionregistrationv1.ValidatingWebhook) {
			h.NamespaceSelector.MatchExpressions = append(h.NamespaceSelector.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values})
		})
	}
	good := configured(t, func(*register.Options) {})
	for claim, test := range map[string]struct {
		configurations []configuration
		namespaces     []string
		missing        bool
		weak           string
	}{
		"the configuration of the chart":                     {configurations: []configuration{good}},
		"the configuration of the chart for some namespaces": {[]configuration{configured(t, func(o *register.Options) { o.Namespaces = []string{"x", "y"} })}, []string{"x", "y"}, false, ""},
		"the configuration of the chart with a Service": {configurations: []configuration{configured(t, func(o *register.Options) {
			o.Endpoint = register.Endpoint{ServiceNamespace: "s", ServiceName: "s", ServicePort: 443}
		})}},
		"none":                             {missing: true},
		"a webhook of another cell":        {configurations: []configuration{configured(t, func(o *register.Options) { o.Cell = "b" })}, missing: true},
		"a correct webhook and a weak one": {configurations: []configuration{hook(func(h *admissionregistrationv1.ValidatingWebhook) { h.FailurePolicy = &ignore }), good}},
		"failurePolicy Ignore":             {configurations: []configuration{hook(func(h *admissionregistrationv1.ValidatingWebhook) { h.FailurePolicy = &ignore })}, weak: "failurePolicy Ignore"},
		"no evictions":                     {configurations: []configuration{hook(func(h *admissionregistrationv1.ValidatingWebhook) { h.Rules = h.Rules[:1] })}, weak: "CREATE of pods/eviction"},
		"no deletions":                     {configurations: []configuration{hook(func(h *admissionregistrationv1.ValidatingWebhook) { h.Rules = h.Rules[1:] })}, weak: "DELETE of pods"},
		"no changes of the status":         {configurations: []configuration{hook(func(h *admissionregistrationv1.ValidatingWebhook) { h.Rules = h.Rules[:4] })}, weak: "UPDATE of pods/status"},
		"all operations on all":            {configurations: []configuration{hook(everything)}},
		"an objectSelector": {configurations: []configuration{hook(func(h *admissionregistrationv1.ValidatingWebhook) {
			h.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		})}, weak: "has an objectSelector"},
		"a foreign match condition": {configurations: []configuration{hook(func(h *admissionregistrationv1.ValidatingWebhook) {
			h.MatchConditions = append(h.MatchConditions, admissionregistrationv1.MatchCondition{Name: "not-the-collector", Expression: "request.userInfo.username != 'collector'"})
		})}, weak: "may admit removals without a review: not-the-collector"},
		"a condition of another version": {configurations: []configuration{hook(func(h *admissionregistrationv1.ValidatingWebhook) { h.MatchConditions[0].Expression = "true" })}},
		"only labeled namespaces":        {configurations: []configuration{require("guard", metav1.LabelSelectorOpExists)}, weak: "selects namespaces by the label guard"},
		"only some namespaces":           {configurations: []configuration{require("kubernetes.io/metadata.name", metav1.LabelSelectorOpIn, "x")}, weak: "selects some namespaces, but the cell has all"},
		"too few namespaces":             {configurations: []configuration{require("kubernetes.io/metadata.name", metav1.LabelSelectorOpIn, "x")}, namespaces: []string{"x", "y"}, weak: "excludes namespace y"},
		"one namespace excluded":         {configurations: []configuration{require("kubernetes.io/metadata.name", metav1.LabelSelectorOpNotIn, "y")}, namespaces: []string{"x", "y"}, weak: "excludes namespace y"},
	} {
		t.Run(claim, func(t *testing.T) {
			weak, found := webhookconfig.Weaknesses("a", test.namespaces, test.configurations)
			if found == test.missing {
				t.Errorf("Weaknesses() found = %v, want %v", found, !test.missing)
			}
			if said := strings.Join(weak, "; "); (said == "") != (test.weak == "") || !strings.Contains(said, test.weak) {
				t.Errorf("Weaknesses() = %q, want %q", said, test.weak)
			}
		})
	}
}

func everything(h *admissionregistrationv1.ValidatingWebhook) {
	h.Rules = []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{"*"},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
	}}
}

func TestEnforcesLabels(t *testing.T) {
	selector := &v1alpha1.PodSelector{MatchLabels: map[string]string{"cell": "a"}, MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpExists}}}
	type policy = admissionregistrationv1.ValidatingAdmissionPolicy
	type binding = admissionregistrationv1.ValidatingAdmissionPolicyBinding
	ignore := admissionregistrationv1.Ignore
	for claim, change := range map[string]func(*policy, *binding){
		"of another selector": func(p *policy, _ *binding) { p.Spec.Validations = p.Spec.Validations[:1] },
		"that lets all pass":  func(p *policy, _ *binding) { p.Spec.FailurePolicy = &ignore },
		"without the status":  func(p *policy, _ *binding) { p.Spec.MatchConstraints.ResourceRules[0].Resources = []string{"pods"} },
		"on a condition":      func(p *policy, _ *binding) { p.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{}} },
		"that only warns": func(_ *policy, b *binding) {
			b.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}
		},
		"bound to some objects": func(_ *policy, b *binding) { b.Spec.MatchResources = &admissionregistrationv1.MatchResources{} },
		"bound to another":      func(_ *policy, b *binding) { b.Spec.PolicyName = "another" },
	} {
		t.Run(claim, func(t *testing.T) {
			p, b := webhookconfig.LabelPolicy("a", selector), webhookconfig.LabelBinding("a")
			if !webhookconfig.EnforcesLabels("a", selector, p, b) {
				t.Fatal("EnforcesLabels() of the chart's policy = false, want true")
			}
			change(p, b)
			if webhookconfig.EnforcesLabels("a", selector, p, b) {
				t.Error("EnforcesLabels() = true, want false")
			}
		})
	}
	if webhookconfig.EnforcesLabels("a", selector, nil, webhookconfig.LabelBinding("a")) || webhookconfig.EnforcesLabels("a", selector, webhookconfig.LabelPolicy("a", selector), nil) {
		t.Error("EnforcesLabels() without a policy = true, want false")
	}
}

func TestCellNames(t *testing.T) {
	hook := func(config admissionregistrationv1.WebhookClientConfig) admissionregistrationv1.ValidatingWebhook {
		return admissionregistrationv1.ValidatingWebhook{ClientConfig: config}
	}
	url := func(address string) admissionregistrationv1.ValidatingWebhook {
		return hook(admissionregistrationv1.WebhookClientConfig{URL: &address})
	}
	service := func(path string) admissionregistrationv1.ValidatingWebhook {
		return hook(admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Path: &path}})
	}
	got := webhookconfig.CellNames([]admissionregistrationv1.ValidatingWebhookConfiguration{
		{Webhooks: []admissionregistrationv1.ValidatingWebhook{url("https://here:8443/cells/b/validate?x=y"), service("/cells/a/validate"), service("/cells/b/validate")}},
		{Webhooks: []admissionregistrationv1.ValidatingWebhook{
			service("/validate"), service("/cells//validate"), service("/cells/c/schedule"), service("/other/cells/d/validate"), hook(admissionregistrationv1.WebhookClientConfig{}),
		}},
	})
	if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
