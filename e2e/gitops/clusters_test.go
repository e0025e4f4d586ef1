package gitops_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/gitops"
)

func TestAPIServerAcceptsAllOfClusters(t *testing.T) {
	tree := os.DirFS(filepath.Join(root, "clusters"))
	checked := 0
	noErrors(t, fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		folder, name := filepath.Dir(path), filepath.Base(path)
		if err != nil || entry.IsDir() || name != "kustomization.yaml" && name != "values.yaml" || folder == "settings" || folder == filepath.Join("secrets", "sops") {
			return err
		}
		checked++
		t.Run(strings.ReplaceAll(path, "/", ":"), func(t *testing.T) {
			if name == "kustomization.yaml" {
				_, objects, err := buildKustomization(t.Context(), folder)
				noErrors(t, err)
				expectAccepted(t, objects)
				return
			}
			// Use another release name than the synced objects, because the API server would merge both. Skip hooks, because the API
			// server rejects a hook's pod until its ServiceAccount exists.
			rendered, err := gitops.Output(t.Context(), nil, "helm", "template", "other", filepath.Join(root, "charts", "breakwater"), "--namespace="+systemNamespace,
				"--kube-version=1.36.0", "--no-hooks", "--values="+filepath.Join(root, "clusters", path))
			noErrors(t, err)
			objects, err := gitops.Parse(rendered)
			noErrors(t, err)
			expectAccepted(t, objects)
		})
		return nil
	}))
	if checked < 12 {
		t.Errorf("checked only %d files", checked)
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

func TestAPIServerRejectsInvalidFluxAndArgoFiles(t *testing.T) {
	for folder, mistake := range map[string]struct{ right, wrong string }{
		"dev/worker-1":    {"RetryOnFailure", "RetryForever"},
		"base/protection": {"prune: true", "prune: maybe"},
		"argocd":          {"syncPolicy:", "syncPolice:"},
	} {
		raw, _, err := buildKustomization(t.Context(), folder)
		noErrors(t, err)
		objects, err := gitops.Parse([]byte(strings.ReplaceAll(string(raw), mistake.right, mistake.wrong)))
		noErrors(t, err)
		if err := fixture.Apply(t.Context(), objects, client.DryRunAll); err == nil {
			t.Errorf("%s: %q is accepted as %q", folder, mistake.wrong, mistake.right)
		}
	}
}
