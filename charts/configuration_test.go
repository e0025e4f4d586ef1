package charts_test

import (
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/webhook/register"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

func validatingWebhooks(t *testing.T, set string, arguments ...string) map[string]admissionregistrationv1.ValidatingWebhook {
	t.Helper()
	hooks := map[string]admissionregistrationv1.ValidatingWebhook{}
	objects := render(t, append([]string{"--values", "breakwater/ci/" + set + ".yaml"}, arguments...)...)
	for _, c := range objectsOfKind[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration") {
		if len(c.Webhooks) != 1 {
			t.Fatalf("%s has %d webhooks", c.Name, len(c.Webhooks))
		}
		hooks[c.Name] = c.Webhooks[0]
	}
	return hooks
}

// The chart renders the same configurations as breakwater webhook-config.
func TestConfigurationsMatchWebhookConfigCommand(t *testing.T) {
	exempt := []string{"kube-system", "kube-public", "kube-node-lease", namespace}
	service := register.Endpoint{ServiceNamespace: namespace, ServiceName: "breakwater-webhook", ServicePort: 443}
	for _, c := range []struct {
		set, name string
		describe  func(register.Options) (*admissionregistrationv1.ValidatingWebhookConfiguration, error)
		options   register.Options
	}{
		{"single", "breakwater-cell-local", register.Configuration, register.Options{Cell: "local", Endpoint: service}},
		{"single", "breakwater-core", register.CoreConfiguration, register.Options{Core: "core", Endpoint: service}},
		{"single-parts", "breakwater-cell-shop", register.Configuration, register.Options{
			Cell: "shop", Namespaces: []string{"shop", "bank"}, Endpoint: service, ExemptNamespaces: []string{"kube-system", namespace},
		}},
		{"worker", "breakwater-cell-worker-1", register.Configuration, register.Options{Cell: "worker-1", Endpoint: service}},
		{"worker-remote-webhook", "breakwater-cell-worker-1", register.Configuration, register.Options{
			Cell: "worker-1", Endpoint: register.Endpoint{URL: "https://breakwater.europe.example:443"},
		}},
	} {
		t.Run(c.set+" "+c.name, func(t *testing.T) {
			if c.options.ExemptNamespaces == nil {
				c.options.ExemptNamespaces = exempt
			}
			c.options.TimeoutSeconds = 10
			if c.options.Cell != "" {
				c.options.Scope = webhookconfig.ScopeProtected
			}
			want, err := c.describe(c.options)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := validatingWebhooks(t, c.set, "--set", "webhook.scope=Protected")[c.name]
			if !ok {
				t.Fatal("the webhook is not rendered")
			}
			if c.set == "worker-remote-webhook" {
				if len(got.ClientConfig.CABundle) == 0 {
					t.Error("the webhook has no caBundle")
				}
				got.ClientConfig.CABundle = nil
			}
			if diff := cmp.Diff(want.Webhooks[0], got); diff != "" {
				t.Errorf("want - got +\n%s", diff)
			}
		})
	}
}

// Without access to the cluster, Helm cannot know whether an older version has labeled the namespaces.
func TestScopeOfRemovals(t *testing.T) {
	for scope, want := range map[string]bool{"": false, "Protected": true, "All": false} {
		for name, hook := range validatingWebhooks(t, "single", "--set", "webhook.scope="+scope) {
			configurations := []admissionregistrationv1.ValidatingWebhookConfiguration{{Webhooks: []admissionregistrationv1.ValidatingWebhook{hook}}}
			want := want && name == "breakwater-cell-local"
			if got := webhookconfig.DependsOnProtectedLabel("local", configurations); got != want {
				t.Errorf("scope %q: %s depends on the label: %v, want %v", scope, name, got, want)
			}
		}
	}
}

// Only the accounts by which aggregators work in the cluster may remove the label.
func TestLabelOfProtectedNamespacesIsKept(t *testing.T) {
	account := func(name string) string { return "system:serviceaccount:" + namespace + ":breakwater-" + name }
	for set, c := range map[string]struct {
		cell             string
		users, arguments []string
	}{
		"single": {cell: "local", users: []string{account("aggregator"), account("access")}},
		"shares": {cell: "shop", users: []string{account("aggregator"), account("shares"), account("access")}},
		"worker": {cell: "worker-1", users: []string{account("aggregator"), account("access"), "inventory"}, arguments: []string{"--set", "webhook.aggregatorUsers={inventory}"}},
	} {
		t.Run(set, func(t *testing.T) {
			objects := render(t, append([]string{"--values", "breakwater/ci/" + set + ".yaml"}, c.arguments...)...)
			var policy *admissionregistrationv1.ValidatingAdmissionPolicy
			for _, p := range objectsOfKind[admissionregistrationv1.ValidatingAdmissionPolicy](t, objects, "ValidatingAdmissionPolicy") {
				if p.Name == webhookconfig.ProtectedName(c.cell) {
					policy = p
				}
			}
			if policy == nil {
				t.Fatal("no policy is rendered")
			}
			if diff := cmp.Diff(webhookconfig.ProtectedPolicy(c.cell, c.users).Spec, policy.Spec); diff != "" {
				t.Errorf("want - got +\n%s", diff)
			}
			for _, b := range objectsOfKind[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, objects, "ValidatingAdmissionPolicyBinding") {
				if b.Name == policy.Name && webhookconfig.EnforcesProtected(policy, b) {
					return
				}
			}
			t.Error("the policy is not enforced")
		})
	}
}

func TestLabelsOfLabelSelectedCellsAreImmutable(t *testing.T) {
	objects := render(t, "--values", "breakwater/ci/single-parts.yaml")
	policies := map[string]*admissionregistrationv1.ValidatingAdmissionPolicy{}
	for _, p := range objectsOfKind[admissionregistrationv1.ValidatingAdmissionPolicy](t, objects, "ValidatingAdmissionPolicy") {
		policies[p.Name] = p
	}
	bindings := map[string]*admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	for _, b := range objectsOfKind[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, objects, "ValidatingAdmissionPolicyBinding") {
		bindings[b.Name] = b
	}
	for cell, selector := range map[string]*v1alpha1.PodSelector{
		"zone-a": {MatchLabels: map[string]string{"zone": "a", "tier": "web"}},
		"zone-b": {MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: "zone", Operator: "In", Values: []string{"b"}}}},
	} {
		policy, binding := policies[webhookconfig.LabelsName(cell)], bindings[webhookconfig.LabelsName(cell)]
		if !webhookconfig.EnforcesLabels(cell, selector, policy, binding) {
			t.Errorf("cell %s: %+v, %+v", cell, policy, binding)
			continue
		}
		if diff := cmp.Diff(webhookconfig.LabelPolicy(cell, selector).Spec, policy.Spec); diff != "" {
			t.Errorf("cell %s: want - got +\n%s", cell, diff)
		}
	}
}

// A rendered caBundle would conflict with the component that injects it.
func TestCABundleIsInjectedOrRenderedNeverBoth(t *testing.T) {
	for set, want := range map[string]struct{ injected, given bool }{
		"single": {injected: true}, "self-signed": {}, "own-secret": {given: true}, "worker-remote-webhook": {given: true}, "everything": {injected: true},
	} {
		for _, c := range objectsOfKind[admissionregistrationv1.ValidatingWebhookConfiguration](t,
			render(t, "--values", "breakwater/ci/"+set+".yaml"), "ValidatingWebhookConfiguration") {
			injected, given := c.Annotations["cert-manager.io/inject-ca-from"] != "", len(c.Webhooks[0].ClientConfig.CABundle) > 0
			if injected != want.injected || given != want.given {
				t.Errorf("%s %s: injected %v, given %v, want %+v", set, c.Name, injected, given, want)
			}
		}
	}
	certificates := render(t, "--values", "breakwater/ci/self-signed.yaml")
	found := false
	for _, object := range certificates {
		if object.GetKind() == "Deployment" && object.GetName() == "breakwater-certificates" {
			raw, err := object.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			found = strings.Contains(string(raw), "--webhook-configuration=breakwater-cell-local") && strings.Contains(string(raw), "--webhook-configuration=breakwater-core")
		}
	}
	if !found {
		t.Error("the component certificates does not inject the CA in mode self-signed")
	}
}
