package charts_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/webhook"
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
	service := webhook.Endpoint{ServiceNamespace: namespace, ServiceName: "breakwater-webhook", ServicePort: 443}
	for _, c := range []struct {
		set, name string
		describe  func(webhook.ConfigurationOptions) (*admissionregistrationv1.ValidatingWebhookConfiguration, error)
		options   webhook.ConfigurationOptions
	}{
		{"single", "breakwater-cell-local", webhook.Configuration, webhook.ConfigurationOptions{Cell: "local", Endpoint: service}},
		{"single", "breakwater-core", webhook.CoreConfiguration, webhook.ConfigurationOptions{Core: "core", Endpoint: service}},
		{"single-parts", "breakwater-cell-shop", webhook.Configuration, webhook.ConfigurationOptions{
			Cell: "shop", Namespaces: []string{"shop", "bank"}, Endpoint: service, ExemptNamespaces: []string{"kube-system", namespace},
		}},
		{"worker", "breakwater-cell-worker-1", webhook.Configuration, webhook.ConfigurationOptions{Cell: "worker-1", Endpoint: service}},
		{"worker-remote-webhook", "breakwater-cell-worker-1", webhook.Configuration, webhook.ConfigurationOptions{
			Cell: "worker-1", Endpoint: webhook.Endpoint{URL: "https://breakwater.europe.example:443"},
		}},
	} {
		t.Run(c.set+" "+c.name, func(t *testing.T) {
			if c.options.ExemptNamespaces == nil {
				c.options.ExemptNamespaces = exempt
			}
			c.options.TimeoutSeconds = 10
			want, err := c.describe(c.options)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := validatingWebhooks(t, c.set)[c.name]
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

// The scope Protected selects namespaces by their label, keeps the label by a policy, and does not restrict scheduling policies.
func TestScopeProtectedMatchesWebhookConfigCommand(t *testing.T) {
	objects := render(t, "--values", "breakwater/ci/scheduling.yaml", "--set", "webhook.scope=Protected,webhook.aggregators={cd}")
	policies := objectsOfKind[admissionregistrationv1.ValidatingAdmissionPolicy](t, objects, "ValidatingAdmissionPolicy")
	bindings := objectsOfKind[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, objects, "ValidatingAdmissionPolicyBinding")
	cells := 0
	for _, c := range objectsOfKind[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration") {
		hook, want := c.Webhooks[0], strings.HasPrefix(c.Name, "breakwater-cell-")
		isScoped := hook.NamespaceSelector != nil && slices.ContainsFunc(hook.NamespaceSelector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
			return cmp.Equal(r, webhookconfig.ProtectedRequirement())
		})
		if isScoped != want {
			t.Errorf("%s selects %v, want the label of namespaces with protectors: %v", c.Name, hook.NamespaceSelector, want)
		}
		if !want {
			continue
		}
		cells++
		cell := strings.TrimPrefix(c.Name, "breakwater-cell-")
		wanted := webhookconfig.ProtectedPolicy(cell, []string{"system:serviceaccounts:" + namespace, "cd"})
		i := slices.IndexFunc(policies, func(p *admissionregistrationv1.ValidatingAdmissionPolicy) bool { return p.Name == wanted.Name })
		j := slices.IndexFunc(bindings, func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool { return b.Name == wanted.Name })
		if i < 0 || j < 0 {
			t.Fatalf("policy %s or its binding is not rendered", wanted.Name)
		}
		if diff := cmp.Diff(wanted.Spec, policies[i].Spec); diff != "" || !webhookconfig.KeepsProtected(cell, policies[i], bindings[j]) {
			t.Errorf("policy and binding of cell %s are not enforced; want - got +\n%s", cell, diff)
		}
	}
	if cells == 0 {
		t.Error("no configuration of a cell is rendered")
	}
	for _, c := range objectsOfKind[admissionregistrationv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration") {
		if strings.Contains(fmt.Sprint(c.Webhooks), v1alpha1.LabelProtected) {
			t.Errorf("%s depends on the label of namespaces with protectors", c.Name)
		}
	}
}

// Where Helm cannot read the cluster, an older version may not have labeled the namespaces yet.
func TestScopeIsAllWithoutCluster(t *testing.T) {
	text, err := template(t, "--values", "breakwater/ci/single.yaml")
	if err != nil || strings.Contains(text, v1alpha1.LabelProtected) {
		t.Errorf("helm template restricts the webhook to namespaces with protectors, or failed: %v", err)
	}
}

// A new installation is restricted to namespaces with protectors. An older one stays as it is until the user changes it.
func TestScopeOfNewAndOlderInstallation(t *testing.T) {
	c, kubeconfig := testplane.Client(t), testplane.Kubeconfig(t)
	isScoped := func(arguments ...string) bool {
		t.Helper()
		text, err := helm(t, append([]string{"template", "scoped", "breakwater", "--namespace", namespace, "--values", "breakwater/ci/single.yaml",
			"--set", "tls.mode=self-signed", "--dry-run=server", "--kubeconfig", kubeconfig}, arguments...)...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(text, "breakwater.dev/protected, operator: In") && strings.Contains(text, "name: breakwater-protected-local")
	}
	if !isScoped() || isScoped("--set", "webhook.scope=All") {
		t.Error("a new installation has the wrong scope, want Protected, and All on request")
	}
	older, err := webhook.Configuration(webhook.ConfigurationOptions{
		Name: "scoped-breakwater-cell-local", Cell: "local", Namespaces: []string{"none"}, ExemptNamespaces: []string{"kube-system"}, TimeoutSeconds: 1,
		Endpoint: webhook.Endpoint{URL: "https://127.0.0.1:1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	older.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	older.Annotations = map[string]string{"meta.helm.sh/release-name": "scoped", "meta.helm.sh/release-namespace": namespace}
	if err := c.Create(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), older) })
	if isScoped() || !isScoped("--set", "webhook.scope=Protected") {
		t.Error("an older installation has the wrong scope, want All, and Protected on request")
	}
	selector := older.Webhooks[0].NamespaceSelector
	selector.MatchExpressions = append(selector.MatchExpressions, webhookconfig.ProtectedRequirement())
	if err := c.Update(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	if !isScoped() {
		t.Error("an installation with the scope Protected loses it with an upgrade")
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
