package gitops_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e/gitops"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

func TestAPIServerAcceptsEveryFileOfClusters(t *testing.T) {
	tree := os.DirFS(filepath.Join(root, "clusters"))
	looked := 0
	noErrors(t, fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) == ".go" {
			return err
		}
		looked++
		t.Run(strings.ReplaceAll(path, "/", ":"), func(t *testing.T) {
			switch filepath.Base(path) {
			case "topology.yaml": // tested by the code that reads it
			case "kustomization.yaml":
				_, objects, err := buildKustomization(t.Context(), filepath.Dir(path))
				noErrors(t, err)
				expectAccepted(t, objects)
			case "values.yaml":
				chart := filepath.Join(root, "charts", "breakwater")
				// Use another release name than the synced objects, because the API server would merge both. Skip hooks, because the API
				// server rejects a hook's pod until its ServiceAccount exists.
				rendered, err := gitops.Output(t.Context(), nil, "helm", "template", "other", chart, "--namespace="+systemNamespace, "--kube-version=1.36.0", "--no-hooks",
					"--values="+filepath.Join(root, "clusters", path))
				noErrors(t, err)
				objects, err := gitops.Parse(rendered)
				noErrors(t, err)
				expectAccepted(t, objects)
			default:
				raw, err := fs.ReadFile(tree, path)
				noErrors(t, err)
				objects, err := gitops.Parse(raw)
				noErrors(t, err)
				expectAccepted(t, objects)
			}
		})
		return nil
	}))
	if looked < 20 {
		t.Errorf("checked only %d files", looked)
	}
}

// expectAccepted checks that the API server would accept objects: it serves their kinds and knows all their fields.
func expectAccepted(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	if len(objects) == 0 {
		t.Error("it contains no objects")
	}
	for _, object := range objects {
		noErrors(t, fixture.Apply(t.Context(), []*unstructured.Unstructured{object}, client.DryRunAll))
	}
}

func TestEveryClusterHasFolderOfItsRole(t *testing.T) {
	for _, name := range federation.EmbeddedNames() {
		topology, err := federation.Embedded(name)
		noErrors(t, err)
		for _, cluster := range topology.Clusters {
			raw, err := os.ReadFile(filepath.Join(root, "clusters", name, cluster.Name, "values.yaml"))
			noErrors(t, err)
			var got struct {
				Role  string
				Core  struct{ Name string }
				Cells []struct{ Name string }
			}
			noErrors(t, yaml.Unmarshal(raw, &got))
			want := map[bool]string{true: "core", false: "worker"}[cluster.HasRole(federation.Core)]
			if cluster.HasRole(federation.Core) && cluster.HasRole(federation.Worker) {
				want = "single"
			}
			isCell := len(got.Cells) == 1 && got.Cells[0].Name == cluster.Name
			if got.Role != want || cluster.HasRole(federation.Worker) != isCell || cluster.HasRole(federation.Core) && got.Core.Name != cluster.Name {
				t.Errorf("cluster %s of %s: values %+v do not fit its roles %v", cluster.Name, name, got, cluster.Roles)
			}
			protection := objectKinds(t, filepath.Join(name, cluster.Name), "protection")
			if slices.Contains(protection, "Kustomization") != cluster.HasRole(federation.Core) {
				t.Errorf("cluster %s of %s with the roles %v syncs protection by %v", cluster.Name, name, cluster.Roles, protection)
			}
			if got := objectKinds(t, filepath.Join(name, cluster.Name), "breakwater-values"); !slices.Equal(got, []string{"ConfigMap"}) {
				t.Errorf("the values of cluster %s of %s are in %v, want the ConfigMap that the HelmRelease names", cluster.Name, name, got)
			}
		}
	}
}

// objectKinds returns the kinds of the objects with a name in the kustomization of a folder.
func objectKinds(t *testing.T, folder, name string) (found []string) {
	t.Helper()
	_, objects, err := buildKustomization(t.Context(), folder)
	noErrors(t, err)
	for _, object := range objects {
		if object.GetName() == name {
			found = append(found, object.GetKind())
		}
	}
	return found
}

func TestAPIServerRejectsInvalidFluxAndArgoFiles(t *testing.T) {
	for file, mistake := range map[string]struct{ right, wrong string }{
		"flux/releases.yaml":              {"RetryOnFailure", "RetryForever"},
		"flux/protection/protection.yaml": {"prune: true", "prune: maybe"},
		"single/applicationset.yaml":      {"syncPolicy:", "syncPolice:"},
	} {
		raw, err := os.ReadFile(filepath.Join(root, "clusters", file))
		noErrors(t, err)
		objects, err := gitops.Parse([]byte(strings.ReplaceAll(string(raw), mistake.right, mistake.wrong)))
		noErrors(t, err)
		if err := fixture.Apply(t.Context(), objects, client.DryRunAll); err == nil {
			t.Errorf("%s: %q is accepted as %q", file, mistake.wrong, mistake.right)
		}
	}
}
