package gitops_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/gitops"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestArgoCDShowsNoDiffAfterSync(t *testing.T) {
	noErrors(t, fixture.waitForSync(t.Context()))
	application := renderApplication(t)
	for _, chart := range []string{"breakwater-crds", "breakwater"} {
		rendered, err := fixture.renderChart(t.Context(), chart)
		noErrors(t, err)
		objects, err := gitops.Parse([]byte(rendered))
		noErrors(t, err)
		for _, object := range objects {
			if modified, how := isDifferent(t, object, application); modified {
				t.Errorf("%s %s is out of sync: %s", object.GetKind(), object.GetName(), how)
			}
		}
		t.Logf("%d objects of %s are in sync", len(objects), chart)
	}
}

func TestArgoCDShowsDiffOfChange(t *testing.T) {
	rendered, err := fixture.renderChart(t.Context(), "breakwater")
	noErrors(t, err)
	objects, err := gitops.Parse([]byte(strings.ReplaceAll(rendered, "failurePolicy: Fail", "failurePolicy: Ignore")))
	noErrors(t, err)
	var modified []string
	for _, object := range objects {
		if differs, _ := isDifferent(t, object, renderApplication(t)); differs {
			modified = append(modified, object.GetName())
		}
	}
	if slices.Sort(modified); !slices.Equal(modified, []string{"breakwater-cell-main", "breakwater-cells"}) {
		t.Errorf("%v are out of sync", modified)
	}
}

// isDifferent reports whether Argo CD sees a difference between an object and its live state, according to Argo CD's own code and the
// options of the ApplicationSet. It also returns both states.
func isDifferent(t *testing.T, object *unstructured.Unstructured, application string) (bool, string) {
	t.Helper()
	raw, err := object.MarshalJSON()
	noErrors(t, err)
	var answer struct {
		Modified     bool
		Live, Wanted json.RawMessage
	}
	runAndDecode(t, raw, &answer, "argo-look", "-settings="+argoSettings(t), "-application="+application, "-kubeconfig="+fixture.Cluster.Kubeconfig(), "diff")
	return answer.Modified, string(answer.Live) + "\n" + string(answer.Wanted)
}

// renderApplication writes the Application that the ApplicationSet of clusters/argocd creates, with only the fields that define ignored
// differences.
func renderApplication(t *testing.T) string {
	t.Helper()
	applications := findObject(t, "argocd", "ApplicationSet", "breakwater")
	ignored, ok, err := unstructured.NestedSlice(applications.Object, "spec", "template", "spec", "ignoreDifferences")
	noErrors(t, err)
	compare, _, err := unstructured.NestedString(applications.Object, "spec", "template", "metadata", "annotations", "argocd.argoproj.io/compare-options")
	noErrors(t, err)
	if !ok || compare != "ServerSideDiff=true" {
		t.Fatalf("the ApplicationSet has no ignoreDifferences, or compares by %q", compare)
	}
	out, err := yaml.Marshal(map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "spec": map[string]any{"ignoreDifferences": ignored},
	})
	noErrors(t, err)
	file := filepath.Join(t.TempDir(), "application.yaml")
	noErrors(t, os.WriteFile(file, out, 0o600))
	return file
}

func TestArgoCDActionsOnAProtector(t *testing.T) {
	settings := argoSettings(t)
	protector := func(deleted bool) []byte {
		metadata := map[string]any{"name": "web", "namespace": "shop", "finalizers": []any{"breakwater.dev/protector", "example.com/other", "breakwater.dev/hold"}}
		if deleted {
			metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		}
		raw, err := json.Marshal(map[string]any{"apiVersion": "breakwater.dev/v1alpha1", "kind": "PodProtector", "metadata": metadata})
		noErrors(t, err)
		return raw
	}
	for deleted, want := range map[bool][]string{false: {"remove-cell"}, true: {"release", "remove-cell"}} {
		var offered []struct {
			Name     string
			Disabled bool
		}
		runAndDecode(t, protector(deleted), &offered, "argo-look", "-settings="+settings, "actions")
		var enabled []string
		for _, action := range offered {
			if !action.Disabled {
				enabled = append(enabled, action.Name)
			}
		}
		if slices.Sort(enabled); !slices.Equal(enabled, want) {
			t.Errorf("deleted %v: offered %v, want %v", deleted, enabled, want)
		}
	}
	var results []struct {
		Resource  unstructured.Unstructured
		Operation string
	}
	runAndDecode(t, protector(false), &results, "argo-look", "-settings="+settings, "-parameter=cell=worker-2", "act", "remove-cell")
	if got := results[0].Resource.GetAnnotations()["breakwater.dev/remove-cell"]; got != "worker-2" || results[0].Operation != "patch" {
		t.Errorf("remove-cell makes the annotation %q by %s", got, results[0].Operation)
	}
	runAndDecode(t, protector(true), &results, "argo-look", "-settings="+settings, "act", "release")
	if got := results[0].Resource.GetFinalizers(); !slices.Equal(got, []string{"example.com/other"}) {
		t.Errorf("release leaves the finalizers %v", got)
	}
	if _, err := gitops.Output(t.Context(), protector(false), "argo-look", "-settings="+settings, "act", "release"); err == nil {
		t.Error("release of an object that is not being deleted succeeded, want an error")
	}
	if _, err := gitops.Output(t.Context(), protector(false), "argo-look", "-settings="+settings, "act", "remove-cell"); err == nil {
		t.Error("remove-cell without a cell succeeded, want an error")
	}
}
