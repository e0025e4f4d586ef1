package gitops_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestAFirstSyncBecomesReadyAndProtects(t *testing.T) {
	must(t, stage.awaitSync(t.Context()))
	wantRefused(t)
	wantScheduled(t)
	var validating admissionregistrationv1.ValidatingWebhookConfigurationList
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	must(t, stage.List(t.Context(), &validating), stage.List(t.Context(), &mutating))
	var names []string
	for _, c := range validating.Items {
		names = append(names, c.Name)
		wantInjected(t, &c, c.Webhooks[0].ClientConfig)
	}
	for _, c := range mutating.Items {
		names = append(names, c.Name)
		wantInjected(t, &c, c.Webhooks[0].ClientConfig)
	}
	if diff := cmp.Diff([]string{"breakwater-cell-main", "breakwater-core", "breakwater-roots", "breakwater-scheduling-main"}, names); diff != "" {
		t.Errorf("webhook configurations (-want +got):\n%s", diff)
	}
}

// wantInjected checks that the cainjector alone has written how a webhook is trusted.
func wantInjected(t *testing.T, configuration client.Object, to admissionregistrationv1.WebhookClientConfig) {
	t.Helper()
	if len(to.CABundle) == 0 {
		t.Errorf("%s: the cainjector has filled no caBundle in, and it was asked?", configuration.GetName())
	}
	for _, entry := range configuration.GetManagedFields() {
		if entry.Manager == fluxManager && strings.Contains(entry.FieldsV1.String(), "f:caBundle") {
			t.Errorf("%s: Flux owns the caBundle that the cainjector writes", configuration.GetName())
		}
	}
}

func TestASecondSyncChangesNothing(t *testing.T) {
	must(t, stage.awaitSync(t.Context()))
	wantNoDiff(t)
}

func TestAFieldThatSomebodyChangedIsPutBack(t *testing.T) {
	key := client.ObjectKey{Name: "breakwater-cell-main"}
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	must(t, stage.Get(t.Context(), key, &configuration))
	ignore := admissionregistrationv1.Ignore
	configuration.Webhooks[0].FailurePolicy = &ignore
	must(t, stage.Update(t.Context(), &configuration), stage.syncAgain(t.Context()), stage.Get(t.Context(), key, &configuration))
	if got := *configuration.Webhooks[0].FailurePolicy; got != admissionregistrationv1.Fail {
		t.Errorf("failurePolicy is %s after a sync, want Fail", got)
	}
	if len(configuration.Webhooks[0].ClientConfig.CABundle) == 0 {
		t.Error("the sync took the caBundle out")
	}
	must(t, stage.awaitGuard(t.Context()))
}

func TestACommitOfNewerChartsIsRolledOut(t *testing.T) {
	app, err := stage.render(t.Context(), "breakwater")
	app, _ = split(app)
	must(t, err, stage.push(t.Context(), "One more replica", map[string]string{
		"breakwater/breakwater.yaml": strings.Replace(app, "replicas: 2", "replicas: 3", 1),
	}), stage.awaitSync(t.Context()))
	var deployments appsv1.DeploymentList
	must(t, stage.List(t.Context(), &deployments, client.InNamespace(system)))
	three := 0
	for _, d := range deployments.Items {
		if *d.Spec.Replicas == 3 {
			three++
		}
	}
	if three != 1 {
		t.Errorf("%d Deployments have three replicas, want one", three)
	}
	must(t, stage.push(t.Context(), "Back", map[string]string{"breakwater/breakwater.yaml": app}), stage.awaitSync(t.Context()))
	wantRefused(t)
}

// wantNoDiff checks that a sync writes nothing.
func wantNoDiff(t *testing.T) {
	t.Helper()
	before, err := stage.footprints(t.Context())
	must(t, err)
	must(t, stage.syncAgain(t.Context()))
	after, err := stage.footprints(t.Context())
	must(t, err)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("a sync of the same revision changed objects (-before +after):\n%s", diff)
	}
	t.Logf("%d objects looked at", len(after))
}
