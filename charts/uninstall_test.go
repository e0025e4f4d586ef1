package charts_test

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
)

// A core has no webhook for pods, and so no permission to delete webhook configurations. e2e/charts runs the Job of a single cluster.
func TestUninstallationDeletesWebhookConfigurationsInSingleClustersOnly(t *testing.T) {
	const right = "delete admissionregistration.k8s.io validatingwebhookconfigurations *"
	for set, want := range map[string]struct {
		argument string
		mayDo    bool
	}{
		"single": {"--webhooks-of=local", true}, "scheduling": {"--webhooks-of=shop,zone-a", true}, "core": {"--yes", false},
	} {
		objects := render(t, "--values", "breakwater/ci/"+set+".yaml", "--set", "fullnameOverride=breakwater")
		jobs := slices.DeleteFunc(objectsOfKind[batchv1.Job](t, objects, "Job"), func(j *batchv1.Job) bool { return j.Name != "breakwater-uninstall" })
		if len(jobs) != 1 {
			t.Fatalf("%s: %d Jobs, want 1", set, len(jobs))
		}
		arguments := jobs[0].Spec.Template.Spec.Containers[0].Args
		if got := arguments[len(arguments)-1]; got != want.argument {
			t.Errorf("%s: the Job runs %q, want the last argument %s", set, arguments, want.argument)
		}
		if got := slices.Contains(grantedPermissions(t, objects, "ClusterRole", "breakwater-uninstall"), right); got != want.mayDo {
			t.Errorf("%s: the Job may delete webhook configurations: %v, want %v", set, got, want.mayDo)
		}
	}
}
