package charts_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// clusterFiles returns the files of clusters/ by their path in it.
func clusterFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	tree := os.DirFS(filepath.Join("..", "clusters"))
	if err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(tree, path)
		files[path] = string(raw)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

// kustomize returns what kustomize builds of a folder of files.
func kustomize(t *testing.T, files map[string]string, folder string) string {
	t.Helper()
	memory := filesys.MakeFsInMemory()
	for path, text := range files {
		if err := memory.WriteFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(memory, folder)
	if err != nil {
		t.Fatalf("kustomize %s: %v", folder, err)
	}
	raw, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// filesWith returns the paths of files with a text.
func filesWith(files map[string]string, text string) (found []string) {
	for path, content := range files {
		if strings.Contains(content, text) {
			found = append(found, path)
		}
	}
	slices.Sort(found)
	return found
}

// chartVersion returns the version of the chart in this folder.
func chartVersion(t *testing.T) string {
	t.Helper()
	var chart struct{ Version string }
	raw, err := os.ReadFile(filepath.Join("breakwater", "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, &chart); err != nil {
		t.Fatal(err)
	}
	return chart.Version
}

func TestClustersNameEachAddressAndVersionOnce(t *testing.T) {
	files := clusterFiles(t)
	for text, want := range map[string][]string{
		"ghcr.io": {"settings/settings.yaml"}, "https://": {"settings/settings.yaml"},
		chartVersion(t): {"dev/release/release.yaml", "prod/release/release.yaml"},
	} {
		if diff := cmp.Diff(want, filesWith(files, text)); diff != "" {
			t.Errorf("files with %s (-want +got):\n%s", text, diff)
		}
	}
	for path, text := range files {
		if other, ok := strings.CutPrefix(path, "dev/"); ok && files["prod/"+other] != text {
			t.Errorf("%s differs from prod/%s", path, other)
		}
	}
}

func TestClustersApplySettingsAndPromotion(t *testing.T) {
	files, version := clusterFiles(t), chartVersion(t)
	const mirror = "mirror.example:5000/team"
	settings := strings.NewReplacer("ghcr.io/breakwater-k8s", mirror, "https://git.example.com/team", "ssh://git@git.example")
	files["settings/settings.yaml"] = settings.Replace(files["settings/settings.yaml"])
	files["dev/release/release.yaml"] = strings.Replace(files["dev/release/release.yaml"], "version: "+version, "version: 99.0.0-rc.1", 1)
	for _, cluster := range []string{"main", "worker-1"} {
		dev, prod := kustomize(t, files, "dev/"+cluster), kustomize(t, files, "prod/"+cluster)
		if got := strings.ReplaceAll(dev, "tag: 99.0.0-rc.1\n", "tag: "+version+"\n"); got != prod || dev == prod {
			t.Errorf("cluster %s: dev and prod differ by more or less than the version:\n%s", cluster, cmp.Diff(prod, got))
		}
		for text, want := range map[string]int{
			"url: oci://" + mirror + "/charts/breakwater\n": 1, "url: oci://" + mirror + "/charts/breakwater-crds\n": 1,
			"repository: " + mirror + "/breakwater\n": 1, "tag: " + version + "\n": 2,
		} {
			if got := strings.Count(prod, text); got != want {
				t.Errorf("cluster %s has %d times %q, want %d", cluster, got, text, want)
			}
		}
	}
	argo := kustomize(t, files, "argocd")
	for text, want := range map[string]int{
		mirror + "/charts\n": 3, "value: " + mirror + "/breakwater\n": 1, "ssh://git@git.example/fleet\n": 5,
	} {
		if got := strings.Count(argo, text); got != want {
			t.Errorf("argocd has %d times %q, want %d", got, text, want)
		}
	}
	for _, built := range []string{argo, kustomize(t, files, "dev/main"), kustomize(t, files, "rendered")} {
		if placeholder := regexp.MustCompile(`\b(CHARTS|IMAGE|REPOSITORY|VERSION)\b`).FindString(built); placeholder != "" {
			t.Errorf("%q is not replaced in:\n%s", placeholder, built)
		}
	}
}

func TestAppProjectAllowsWhatChartsCreateAndNoMore(t *testing.T) {
	created := map[string][]metav1.GroupKind{}
	collect := func(objects []*unstructured.Unstructured) {
		for _, object := range objects {
			kind := metav1.GroupKind(object.GroupVersionKind().GroupKind())
			where := "namespaceResourceWhitelist"
			if object.GetNamespace() == "" {
				where = "clusterResourceWhitelist"
			} else if object.GetNamespace() != namespace {
				continue // a namespace of an inventory, which the user adds to the project
			}
			if kind.Group != "monitoring.coreos.com" && !slices.Contains(created[where], kind) {
				created[where] = append(created[where], kind)
			}
		}
	}
	values := valueSets(t)
	for _, cluster := range []string{"main", "worker-1"} {
		values = append(values, filepath.Join("..", "clusters", "dev", cluster, "values.yaml"))
	}
	for _, file := range values {
		collect(render(t, "--values", file))
	}
	crds, err := helm(t, "template", "breakwater-crds", "breakwater-crds", "--namespace", namespace)
	if err != nil {
		t.Fatal(err)
	}
	collect(parse(t, crds))
	created["clusterResourceWhitelist"] = append(created["clusterResourceWhitelist"], metav1.GroupKind{Kind: "Namespace"}) // CreateNamespace=true
	for _, object := range parse(t, kustomize(t, clusterFiles(t), "argocd")) {
		if object.GetKind() != "AppProject" || object.GetName() != "breakwater" {
			continue
		}
		for where, want := range created {
			var allowed []metav1.GroupKind
			items, _, err := unstructured.NestedSlice(object.Object, "spec", where)
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range items {
				var kind metav1.GroupKind
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.(map[string]any), &kind); err != nil {
					t.Fatal(err)
				}
				allowed = append(allowed, kind)
			}
			slices.SortFunc(want, func(a, b metav1.GroupKind) int { return strings.Compare(a.Group+"/"+a.Kind, b.Group+"/"+b.Kind) })
			if diff := cmp.Diff(want, allowed); diff != "" {
				t.Errorf("%s (-charts +project):\n%s", where, diff)
			}
		}
		return
	}
	t.Error("there is no AppProject breakwater")
}
