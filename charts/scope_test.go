package charts_test

import (
	"context"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// An upgrade does not make removals depend on labels that nothing may have set yet.
func TestUpgradeKeepsScope(t *testing.T) {
	c := testplane.Client(t)
	rendered := func(arguments ...string) *admissionregistrationv1.ValidatingWebhookConfiguration {
		t.Helper()
		arguments = append([]string{"--values", "breakwater/ci/single.yaml", "--set", "tls.mode=self-signed", "--dry-run=server", "--kubeconfig", testplane.Kubeconfig(t)}, arguments...)
		for _, found := range objectsOfKind[admissionregistrationv1.ValidatingWebhookConfiguration](t, render(t, arguments...), "ValidatingWebhookConfiguration") {
			if found.Name == "breakwater-cell-local" {
				return found
			}
		}
		t.Fatal("no configuration is rendered for the cell")
		return nil
	}
	want := func(claim string, want bool, arguments ...string) {
		t.Helper()
		found := []admissionregistrationv1.ValidatingWebhookConfiguration{*rendered(arguments...)}
		if got := webhookconfig.DependsOnProtectedLabel("local", found); got != want {
			t.Errorf("%s: the configuration depends on the label: %v, want %v", claim, got, want)
		}
	}
	want("a new installation", true)
	stored := rendered("--set", "webhook.scope=All")
	stored.Annotations = map[string]string{"meta.helm.sh/release-name": "breakwater", "meta.helm.sh/release-namespace": namespace}
	if err := c.Create(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), stored) })
	want("an installation of scope All", false)
	want("an installation of scope All that is changed", true, "--set", "webhook.scope=Protected")
	stored.Webhooks[0].NamespaceSelector.MatchExpressions = append(stored.Webhooks[0].NamespaceSelector.MatchExpressions, webhookconfig.ProtectedRequirement())
	if err := c.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	want("an installation of scope Protected", true)
}
