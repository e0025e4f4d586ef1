package charts_test

import (
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
)

// The other examples of docs/examples are no values of a chart. A test there applies them.
func TestTrialExampleDeniesNothing(t *testing.T) {
	c := apiserver(t)
	objects := render(t, "--values", "../docs/examples/trial.yaml")
	for _, object := range objects {
		if err := applyDryRun(t.Context(), c, object); err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	audited := slices.ContainsFunc(objectsOfKind[appsv1.Deployment](t, objects, "Deployment"), func(d *appsv1.Deployment) bool {
		return d.Name == "breakwater-webhook" && slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--audit")
	})
	if !audited {
		t.Error("the Deployment breakwater-webhook does not run with --audit")
	}
	configurations := objectsOfKind[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration")
	if len(configurations) == 0 {
		t.Error("no ValidatingWebhookConfiguration is rendered")
	}
	for _, configuration := range configurations {
		for i := range configuration.Webhooks {
			if webhook := &configuration.Webhooks[i]; *webhook.FailurePolicy != admissionregistrationv1.Ignore {
				t.Errorf("webhook %s has the failurePolicy %s, want Ignore", webhook.Name, *webhook.FailurePolicy)
			}
		}
	}
}
