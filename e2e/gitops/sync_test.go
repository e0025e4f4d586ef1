package gitops_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestFirstSyncBecomesReadyAndProtects(t *testing.T) {
	noErrors(t, fixture.waitForSync(t.Context()))
	expectDenied(t)
	expectPolicyApplied(t)
	var validating admissionregistrationv1.ValidatingWebhookConfigurationList
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	noErrors(t, fixture.List(t.Context(), &validating), fixture.List(t.Context(), &mutating))
	var names []string
	for _, c := range validating.Items {
		names = append(names, c.Name)
		expectInjectedByCertManager(t, &c, c.Webhooks[0].ClientConfig)
	}
	for _, c := range mutating.Items {
		names = append(names, c.Name)
		expectInjectedByCertManager(t, &c, c.Webhooks[0].ClientConfig)
	}
	if diff := cmp.Diff([]string{"breakwater-cell-main", "breakwater-core", "breakwater-roots", "breakwater-scheduling-main"}, names); diff != "" {
		t.Errorf("webhook configurations (-want +got):\n%s", diff)
	}
}

// expectInjectedByCertManager checks that only the cainjector has written the caBundle of a webhook.
func expectInjectedByCertManager(t *testing.T, configuration client.Object, to admissionregistrationv1.WebhookClientConfig) {
	t.Helper()
	if len(to.CABundle) == 0 {
		t.Errorf("%s: the cainjector has set no caBundle; is it requested?", configuration.GetName())
	}
	for _, entry := range configuration.GetManagedFields() {
		if entry.Manager == fluxManager && strings.Contains(entry.FieldsV1.String(), "f:caBundle") {
			t.Errorf("%s: Flux owns the caBundle that the cainjector writes", configuration.GetName())
		}
	}
}

func TestSecondSyncChangesNothing(t *testing.T) {
	noErrors(t, fixture.waitForSync(t.Context()))
	expectNoDiff(t)
}

func TestSyncRevertsChangedField(t *testing.T) {
	key := client.ObjectKey{Name: "breakwater-cell-main"}
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	noErrors(t, fixture.Get(t.Context(), key, &configuration))
	ignore := admissionregistrationv1.Ignore
	configuration.Webhooks[0].FailurePolicy = &ignore
	noErrors(t, fixture.Update(t.Context(), &configuration), fixture.syncAgain(t.Context()), fixture.Get(t.Context(), key, &configuration))
	if got := *configuration.Webhooks[0].FailurePolicy; got != admissionregistrationv1.Fail {
		t.Errorf("failurePolicy is %s after a sync, want Fail", got)
	}
	if len(configuration.Webhooks[0].ClientConfig.CABundle) == 0 {
		t.Error("the sync removed the caBundle")
	}
	noErrors(t, fixture.waitForWebhook(t.Context()))
}

func TestCommitOfNewerChartsIsRolledOut(t *testing.T) {
	app, err := fixture.renderChart(t.Context(), "breakwater")
	app, _ = splitCells(app)
	noErrors(t, err, fixture.pushCommit(t.Context(), "One more replica", map[string]string{
		"breakwater/breakwater.yaml": strings.Replace(app, "replicas: 2", "replicas: 3", 1),
	}), fixture.waitForSync(t.Context()))
	var deployments appsv1.DeploymentList
	noErrors(t, fixture.List(t.Context(), &deployments, client.InNamespace(systemNamespace)))
	three := 0
	for _, d := range deployments.Items {
		if *d.Spec.Replicas == 3 {
			three++
		}
	}
	if three != 1 {
		t.Errorf("%d Deployments have 3 replicas, want 1", three)
	}
	noErrors(t, fixture.pushCommit(t.Context(), "Back", map[string]string{"breakwater/breakwater.yaml": app}), fixture.waitForSync(t.Context()))
	expectDenied(t)
}

// expectNoDiff checks that another sync changes nothing.
func expectNoDiff(t *testing.T) {
	t.Helper()
	before, err := fixture.fieldSnapshots(t.Context())
	noErrors(t, err)
	noErrors(t, fixture.syncAgain(t.Context()))
	after, err := fixture.fieldSnapshots(t.Context())
	noErrors(t, err)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("a sync of the same revision changed objects (-before +after):\n%s", diff)
	}
	t.Logf("checked %d objects", len(after))
}
