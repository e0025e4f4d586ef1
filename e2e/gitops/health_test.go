package gitops_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/gitops"
)

// argoSettings writes the additions of clusters/argocd to Argo CD's ConfigMap, and returns the path of the file.
func argoSettings(t *testing.T) string {
	t.Helper()
	settings := findObject(t, "argocd", "ConfigMap", "argocd-cm")
	raw, err := yaml.Marshal(settings.Object)
	noErrors(t, err)
	file := filepath.Join(t.TempDir(), "argocd-cm.yaml")
	noErrors(t, os.WriteFile(file, raw, 0o600))
	return file
}

// healthResults has the health of an object according to Argo CD, kstatus, and the healthCheckExprs in clusters/. Flux waits for
// Unknown as well as for InProgress.
type healthResults struct{ argo, kstatus, expressions string }

func TestArgoCDAndFluxAgreeOnHealth(t *testing.T) {
	ready := func(status, reason string) any {
		return map[string]any{"type": v1alpha1.ConditionReady, "status": status, "reason": reason, "message": "so it is"}
	}
	other := map[string]any{"type": v1alpha1.ConditionGuarded, "status": "False", "reason": v1alpha1.ReasonWebhookMissing, "message": "no"}
	settings, exprs := argoSettings(t), healthExpressions(t)
	for claim, test := range map[string]struct {
		deleted    bool
		observed   int64 // 0 is absent
		conditions []any
		want       healthResults
	}{
		"ready":                 {observed: 2, conditions: []any{ready("True", "Aggregated")}, want: healthResults{"Healthy", "Current", "Current"}},
		"ready, other is false": {observed: 2, conditions: []any{other, ready("True", "Aggregated")}, want: healthResults{"Healthy", "Current", "Current"}},
		"not aggregated":        {observed: 2, conditions: []any{ready("False", "NotAggregated")}, want: healthResults{"Progressing", "InProgress", "InProgress"}},
		"unknown":               {observed: 2, conditions: []any{ready("Unknown", "Aggregating")}, want: healthResults{"Progressing", "InProgress", "InProgress"}},
		"a newer spec":          {observed: 1, conditions: []any{ready("True", "Aggregated")}, want: healthResults{"Progressing", "InProgress", "InProgress"}},
		"deleted":               {deleted: true, observed: 2, conditions: []any{ready("True", "Aggregated")}, want: healthResults{"Progressing", "Terminating", "InProgress"}},
		// kstatus recognizes no failure except the condition Stalled, and considers an object without conditions current. Our settings are
		// stricter.
		"invalid":          {observed: 2, conditions: []any{ready("False", v1alpha1.ReasonInvalidSelector)}, want: healthResults{"Degraded", "InProgress", "Failed"}},
		"no condition":     {observed: 2, conditions: []any{other}, want: healthResults{"Progressing", "Current", "InProgress"}},
		"no status":        {want: healthResults{"Progressing", "Current", "Unknown"}},
		"not observed yet": {conditions: []any{ready("True", "Aggregating")}, want: healthResults{"Healthy", "Current", "Current"}},
	} {
		for _, kind := range []string{"PodProtector", "Cell", "ProtectionPolicy", "ClusterProtectionPolicy", "ClusterRing", "PodSchedulingPolicy", "ClusterPodSchedulingPolicy"} {
			object := map[string]any{
				"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind, "metadata": map[string]any{"name": "web", "namespace": "shop", "generation": 2},
			}
			if kind == "ClusterRing" {
				object["spec"] = map[string]any{"resources": []any{map[string]any{"group": "apps", "resource": "deployments"}}}
			}
			if test.deleted {
				object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
			}
			status := map[string]any{}
			if test.observed > 0 {
				status["observedGeneration"] = test.observed
			}
			if len(test.conditions) > 0 {
				status["conditions"] = test.conditions
			}
			if len(status) > 0 {
				object["status"] = status
			}
			if got := evaluateHealth(t, object, settings, exprs); got != test.want {
				t.Errorf("%s, %s: got %+v, want %+v", claim, kind, got, test.want)
			}
		}
	}
}

// An uneven spread or a pod that conflicts with a policy is informational: the synced objects were applied.
func TestAuditFindingsDoNotDegradeHealth(t *testing.T) {
	settings, exprs := argoSettings(t), healthExpressions(t)
	for _, audited := range []struct{ kind, condition, status, reason, message string }{
		{"PodProtector", v1alpha1.ConditionSpreadSatisfied, "False", v1alpha1.ReasonShareTooLarge, "so it is"},
		{"PodProtector", v1alpha1.ConditionSpreadSatisfied, "False", v1alpha1.ReasonDomainLossBreaks, "so it is"},
		{"PodProtector", v1alpha1.ConditionSpreadSatisfied, "Unknown", v1alpha1.ReasonDomainsUnknown, "so it is"},
		{"PodProtector", v1alpha1.ConditionExpectationBelowPods, "True", v1alpha1.ReasonMorePodsThanExpected, "so it is"},
		{"PodProtector", v1alpha1.ConditionExpectationBelowPods, "Unknown", v1alpha1.ReasonObserving, "so it is"},
		{"PodSchedulingPolicy", v1alpha1.ConditionConflicting, "True", v1alpha1.ReasonContradicted, "A pod recently conflicted with it: like that"},
		{"ClusterPodSchedulingPolicy", v1alpha1.ConditionConflicting, "True", v1alpha1.ReasonContradicted, "A pod recently conflicted with it: like that"},
		{"PodSchedulingPolicy", v1alpha1.ConditionConflicting, "False", v1alpha1.ReasonUncontradicted, "so it is"},
	} {
		object := map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": audited.kind, "metadata": map[string]any{"name": "web", "namespace": "shop", "generation": 2},
			"status": map[string]any{"observedGeneration": 2, "conditions": []any{
				map[string]any{"type": audited.condition, "status": audited.status, "reason": audited.reason, "message": "like that"},
				map[string]any{"type": v1alpha1.ConditionReady, "status": "True", "reason": v1alpha1.ReasonApplied, "message": "so it is"},
			}},
		}
		if got, want := evaluateHealth(t, object, settings, exprs), (healthResults{"Healthy", "Current", "Current"}); got != want {
			t.Errorf("%+v: got %+v, want %+v", audited, got, want)
		}
		raw, err := json.Marshal(object)
		noErrors(t, err)
		var argo struct{ Message string }
		if runAndDecode(t, raw, &argo, "argo-look", "-settings="+settings, "health"); argo.Message != audited.message {
			t.Errorf("%+v: Argo CD says %q", audited, argo.Message)
		}
	}
}

// Without a sharder, no component writes the status of a ring whose shards divide work among themselves.
func TestRingWithoutResourcesIsHealthy(t *testing.T) {
	object := map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ClusterRing", "metadata": map[string]any{"name": "generators", "generation": 1},
		"spec": map[string]any{"shardNamespace": "breakwater-system"},
	}
	if got := evaluateHealth(t, object, argoSettings(t), healthExpressions(t)); got.argo != "Healthy" || got.kstatus != "Current" {
		t.Errorf("%+v", got)
	}
}

// evaluateHealth evaluates the health of an object with the real code of Argo CD and Flux.
func evaluateHealth(t *testing.T, object map[string]any, settings, exprs string) healthResults {
	t.Helper()
	raw, err := json.Marshal(object)
	noErrors(t, err)
	var argo struct{ Status string }
	runAndDecode(t, raw, &argo, "argo-look", "-settings="+settings, "health")
	var flux struct{ Kstatus, Expressions string }
	runAndDecode(t, raw, &flux, "flux-look", "-expressions="+exprs)
	return healthResults{argo.Status, flux.Kstatus, flux.Expressions}
}

// runAndDecode runs a program that reads an object, and decodes its JSON output.
func runAndDecode(t *testing.T, object []byte, answer any, name string, arguments ...string) {
	t.Helper()
	out, err := gitops.Output(t.Context(), object, name, arguments...)
	noErrors(t, err)
	noErrors(t, json.Unmarshal(out, answer))
}

// healthExpressions returns the healthCheckExprs of clusters/. It fails the test unless they are the same in all Kustomizations that
// have some.
func healthExpressions(t *testing.T) string {
	t.Helper()
	found := map[string]bool{}
	for _, folder := range []string{"dev/main", "rendered"} {
		_, objects, err := buildKustomization(t.Context(), folder)
		noErrors(t, err)
		for _, object := range objects {
			list, ok, err := unstructured.NestedSlice(object.Object, "spec", "healthCheckExprs")
			noErrors(t, err)
			if !ok {
				continue
			}
			raw, err := json.Marshal(list[0])
			noErrors(t, err)
			found[string(raw)] = true
		}
	}
	if len(found) != 1 {
		t.Fatalf("want the same expressions everywhere, got %v", found)
	}
	for one := range found {
		return one
	}
	return ""
}

// The health check and its cases have the layout in which Argo CD keeps those of other projects.
func TestArgoCDHealthCheckPassesItsCases(t *testing.T) {
	folder := filepath.Join(root, "clusters", "argocd", "resource_customizations", "breakwater.dev", "_")
	type health struct{ Status, Message string }
	var cases struct {
		Tests []struct {
			HealthStatus health
			InputPath    string
		}
	}
	raw, err := os.ReadFile(filepath.Join(folder, "health_test.yaml"))
	noErrors(t, err)
	noErrors(t, yaml.UnmarshalStrict(raw, &cases))
	inputs, err := filepath.Glob(filepath.Join(folder, "testdata", "*.yaml"))
	noErrors(t, err)
	if len(inputs) == 0 || len(cases.Tests) != len(inputs) {
		t.Errorf("health_test.yaml has %d cases for %d inputs", len(cases.Tests), len(inputs))
	}
	settings := argoSettings(t)
	for _, test := range cases.Tests {
		raw, err := os.ReadFile(filepath.Join(folder, test.InputPath))
		noErrors(t, err)
		object, err := yaml.YAMLToJSON(raw)
		noErrors(t, err)
		var got health
		if runAndDecode(t, object, &got, "argo-look", "-settings="+settings, "health"); got != test.HealthStatus {
			t.Errorf("%s: got %+v, want %+v", test.InputPath, got, test.HealthStatus)
		}
	}
}
