package gitops_test

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e/gitops"
	"github.com/breakwater-k8s/breakwater/e2e/harness/registry"
)

// The helm-controller does not build from Go modules, so this test renders what the HelmRelease names.
func TestFluxSyncsClusterAndPromotion(t *testing.T) {
	version, promotion := promotion(t)
	files := clusterFiles(t, serveCharts(t, version, nextVersion))
	files["clusters/base/charts.yaml"] = strings.ReplaceAll(files["clusters/base/charts.yaml"], "  interval: 1h\n", "  interval: 1h\n  insecure: true\n")
	noErrors(t, fixture.pushCommit(t.Context(), "clusters", files))
	cluster := syncFolder(t, "worker-1", "clusters/dev/worker-1", "")
	expectChart(t, "breakwater-crds", version)
	chart := expectChart(t, "breakwater", version)

	release, err := fixture.Read(t.Context(), schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"}, systemNamespace, "breakwater")
	noErrors(t, err)
	var values corev1.ConfigMap
	noErrors(t, fixture.Get(t.Context(), client.ObjectKey{Namespace: systemNamespace, Name: "breakwater-values"}, &values))
	inline, err := yaml.Marshal(release.Object["spec"].(map[string]any)["values"])
	noErrors(t, err)
	folder := t.TempDir()
	arguments := []string{"template", "other", filepath.Join(folder, "chart.tgz"), "--namespace=" + systemNamespace, "--kube-version=1.36.0", "--no-hooks"}
	for name, content := range map[string][]byte{"chart.tgz": chart, "1-values.yaml": []byte(values.Data["values.yaml"]), "2-inline.yaml": inline} {
		noErrors(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
	}
	rendered, err := gitops.Output(t.Context(), nil, "helm", append(arguments, "--values="+filepath.Join(folder, "1-values.yaml"), "--values="+filepath.Join(folder, "2-inline.yaml"))...)
	noErrors(t, err)
	objects, err := gitops.Parse(rendered)
	noErrors(t, err)
	expectAccepted(t, objects)
	if image := "/breakwater:" + version; !strings.Contains(string(rendered), image) || strings.Contains(string(rendered), "ghcr.io") {
		t.Errorf("the release does not use the image %s of the settings:\n%s", image, rendered)
	}

	noErrors(t, fixture.pushCommit(t.Context(), "a promotion", promotion))
	expectChart(t, "breakwater-crds", nextVersion)
	expectChart(t, "breakwater", nextVersion)
	noErrors(t, fixture.Delete(t.Context(), cluster), fixture.waitForSync(t.Context()))
}

func TestFluxDecryptsKubeconfig(t *testing.T) {
	key, err := os.ReadFile(filepath.Join("testdata", "sops.agekey"))
	noErrors(t, err)
	noErrors(t, fixture.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "sops-age"}, Data: map[string][]byte{"age.agekey": key},
	}))
	folder := filepath.Join("clusters", "secrets", "sops")
	files := map[string]string{}
	for _, name := range []string{"kustomization.yaml", "cell-worker-1.yaml"} {
		raw, err := os.ReadFile(filepath.Join(root, folder, name))
		noErrors(t, err)
		files[filepath.Join(folder, name)] = string(raw)
	}
	noErrors(t, fixture.pushCommit(t.Context(), "a kubeconfig", files))
	syncFolder(t, "secrets", folder, "decryption: {provider: sops, secretRef: {name: sops-age}}")
	var secret corev1.Secret
	noErrors(t, fixture.Get(t.Context(), client.ObjectKey{Namespace: systemNamespace, Name: "cell-worker-1"}, &secret))
	if got := string(secret.Data["kubeconfig"]); !strings.Contains(got, "https://worker-1.example:6443") {
		t.Errorf("the Secret has the kubeconfig %q", got)
	}
}

// syncFolder makes Flux sync a folder of the repository, and waits until it has done so.
func syncFolder(t *testing.T, name, path, extra string) *unstructured.Unstructured {
	t.Helper()
	objects, err := gitops.Parse(fmt.Appendf(nil, `
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {namespace: %s, name: %s}
spec:
  interval: 10m
  path: ./%s
  prune: true
  sourceRef: {kind: GitRepository, namespace: %s, name: %s}
  %s
`, systemNamespace, name, path, source.Namespace, source.Name, extra))
	noErrors(t, err)
	revision, err := fixture.revision(t.Context())
	noErrors(t, err)
	noErrors(t, fixture.Apply(t.Context(), objects), fixture.WaitForApplied(t.Context(), client.ObjectKeyFromObject(objects[0]), revision))
	return objects[0]
}

// expectChart waits until the source-controller serves a version of a chart, and returns the chart.
func expectChart(t *testing.T, name, version string) []byte {
	t.Helper()
	var address string
	noErrors(t, gitops.WaitUntil(t.Context(), "chart "+name, func() string {
		chart, err := fixture.Read(t.Context(), schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "OCIRepository"}, systemNamespace, name)
		if err != nil {
			return err.Error()
		}
		revision, _, _ := unstructured.NestedString(chart.Object, "status", "artifact", "revision") // absent at first
		address, _, _ = unstructured.NestedString(chart.Object, "status", "artifact", "url")
		if ready := gitops.Condition(chart, "Ready"); !strings.HasPrefix(revision, version+"@") || ready.Status != metav1.ConditionTrue {
			return fmt.Sprintf("revision %q, want %s; Ready: %+v", revision, version, ready)
		}
		return ""
	}))
	response, err := http.Get(address)
	noErrors(t, err)
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	noErrors(t, err)
	return raw
}

// nextVersion is the version of charts that tests promote.
const nextVersion = "99.0.0"

// promotion returns the version of the environment dev, and a commit that changes it to nextVersion.
func promotion(t *testing.T) (version string, commit map[string]string) {
	t.Helper()
	file := "clusters/dev/release/release.yaml"
	raw, err := os.ReadFile(filepath.Join(root, file))
	noErrors(t, err)
	var release corev1.ConfigMap
	noErrors(t, yaml.UnmarshalStrict(raw, &release))
	version = release.Data["version"]
	return version, map[string]string{file: strings.Replace(string(raw), version, nextVersion, 1)}
}

// serveCharts serves versions of the charts from a registry without TLS, and returns its address.
func serveCharts(t *testing.T, versions ...string) string {
	t.Helper()
	address := registry.Start(t, "127.0.0.1")
	for _, version := range versions {
		for _, chart := range []string{"breakwater-crds", "breakwater"} {
			folder := t.TempDir()
			_, err := gitops.Output(t.Context(), nil, "helm", "package", filepath.Join(root, "charts", chart), "--version="+version, "--app-version="+version, "--destination="+folder)
			noErrors(t, err)
			_, err = gitops.Output(t.Context(), nil, "helm", "push", filepath.Join(folder, chart+"-"+version+".tgz"), "oci://"+address+"/charts", "--plain-http")
			noErrors(t, err)
		}
	}
	return address
}

// settings replaces the addresses in clusters/settings.
func settings(address string) *strings.Replacer {
	return strings.NewReplacer("ghcr.io/breakwater-k8s", address, "https://git.example.com/team/fleet", fixture.repository.URL())
}

// clusterFiles returns the files of clusters/ with the addresses and the values of the fixture, as a user commits them.
func clusterFiles(t *testing.T, address string) map[string]string {
	t.Helper()
	files := map[string]string{}
	noErrors(t, fs.WalkDir(os.DirFS(root), "clusters", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(filepath.Join(root, path))
		files[path] = string(raw)
		return err
	}))
	files["clusters/settings/settings.yaml"] = settings(address).Replace(files["clusters/settings/settings.yaml"])
	values, err := fixture.values()
	noErrors(t, err)
	files["clusters/dev/main/values.yaml"] = values
	return files
}
