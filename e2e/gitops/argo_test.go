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

func TestArgoCDSeesNoDifferenceInWhatIsSynced(t *testing.T) {
	must(t, stage.awaitSync(t.Context()))
	application := application(t)
	for _, chart := range []string{"breakwater-crds", "breakwater"} {
		rendered, err := stage.render(t.Context(), chart)
		must(t, err)
		objects, err := gitops.Parse([]byte(rendered))
		must(t, err)
		for _, object := range objects {
			if modified, how := differs(t, object, application); modified {
				t.Errorf("%s %s is out of sync: %s", object.GetKind(), object.GetName(), how)
			}
		}
		t.Logf("%d objects of %s are in sync", len(objects), chart)
	}
}

func TestArgoCDSeesAChange(t *testing.T) {
	rendered, err := stage.render(t.Context(), "breakwater")
	must(t, err)
	objects, err := gitops.Parse([]byte(strings.ReplaceAll(rendered, "failurePolicy: Fail", "failurePolicy: Ignore")))
	must(t, err)
	modified := 0
	for _, object := range objects {
		if differs, _ := differs(t, object, application(t)); differs {
			modified++
		}
	}
	if modified != 1 {
		t.Errorf("%d objects are out of sync, want one", modified)
	}
}

// differs asks Argo CD's own code, with the options of the ApplicationSet.
func differs(t *testing.T, object *unstructured.Unstructured, application string) (bool, string) {
	t.Helper()
	raw, err := object.MarshalJSON()
	must(t, err)
	var answer struct {
		Modified     bool
		Live, Wanted json.RawMessage
	}
	look(t, raw, &answer, "argo-look", "-settings="+settings, "-application="+application, "-kubeconfig="+stage.Cluster.Kubeconfig(), "diff")
	return answer.Modified, string(answer.Live) + "\n" + string(answer.Wanted)
}

// application writes the Application that the ApplicationSet of clusters/single makes, as far as it says what is ignored.
func application(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "clusters", "single", "applicationset.yaml"))
	must(t, err)
	objects, err := gitops.Parse(raw)
	must(t, err)
	ignored, ok, err := unstructured.NestedSlice(objects[0].Object, "spec", "template", "spec", "ignoreDifferences")
	must(t, err)
	compare, _, err := unstructured.NestedString(objects[0].Object, "spec", "template", "metadata", "annotations", "argocd.argoproj.io/compare-options")
	must(t, err)
	if !ok || compare != "ServerSideDiff=true" {
		t.Fatalf("the ApplicationSet ignores nothing, or compares by %q", compare)
	}
	out, err := yaml.Marshal(map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "spec": map[string]any{"ignoreDifferences": ignored},
	})
	must(t, err)
	file := filepath.Join(t.TempDir(), "application.yaml")
	must(t, os.WriteFile(file, out, 0o600))
	return file
}

func TestArgoCDActionsOnAProtector(t *testing.T) {
	protector := func(deleted bool) []byte {
		metadata := map[string]any{"name": "web", "namespace": "shop", "finalizers": []any{"breakwater.dev/protector", "example.com/other", "breakwater.dev/hold"}}
		if deleted {
			metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		}
		raw, err := json.Marshal(map[string]any{"apiVersion": "breakwater.dev/v1alpha1", "kind": "PodProtector", "metadata": metadata})
		must(t, err)
		return raw
	}
	for deleted, want := range map[bool][]string{false: {"remove-cell"}, true: {"release", "remove-cell"}} {
		var offered []struct {
			Name     string
			Disabled bool
		}
		look(t, protector(deleted), &offered, "argo-look", "-settings="+settings, "actions")
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
	look(t, protector(false), &results, "argo-look", "-settings="+settings, "-parameter=cell=worker-2", "act", "remove-cell")
	if got := results[0].Resource.GetAnnotations()["breakwater.dev/remove-cell"]; got != "worker-2" || results[0].Operation != "patch" {
		t.Errorf("remove-cell makes the annotation %q by %s", got, results[0].Operation)
	}
	look(t, protector(true), &results, "argo-look", "-settings="+settings, "act", "release")
	if got := results[0].Resource.GetFinalizers(); !slices.Equal(got, []string{"example.com/other"}) {
		t.Errorf("release leaves the finalizers %v", got)
	}
	if _, err := gitops.Output(t.Context(), protector(false), "argo-look", "-settings="+settings, "act", "release"); err == nil {
		t.Error("release of what is not deleted is done")
	}
	if _, err := gitops.Output(t.Context(), protector(false), "argo-look", "-settings="+settings, "act", "remove-cell"); err == nil {
		t.Error("remove-cell of no cell is done")
	}
}
