package charts_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// yamlBlocks returns the YAML blocks of a page.
func yamlBlocks(t *testing.T, page string) (blocks []string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
		blocks = append(blocks, found[1])
	}
	return blocks
}

// Users apply the objects that the docs show.
func TestAPIServerAcceptsObjectsInDocs(t *testing.T) {
	c := apiserver(t)
	for page, want := range map[string]int{
		"concepts/scheduling.md": 3, "concepts/overview.md": 1, "how-to/choose-scheduling.md": 3, "how-to/core-outage.md": 1, "how-to/inventory.md": 1, "how-to/multi-tenancy.md": 5,
	} {
		checked := 0
		for _, block := range yamlBlocks(t, page) {
			for _, object := range parse(t, block) {
				if object.GetKind() == "" || object.GetKind() == "KubeSchedulerConfiguration" {
					continue // chart values, and a file of kube-scheduler
				}
				if namespace := object.GetNamespace(); namespace != "" {
					err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
					if err != nil && !apierrors.IsAlreadyExists(err) {
						t.Fatal(err)
					}
				}
				checked++
				gvk := object.GroupVersionKind()
				if _, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); meta.IsNoMatchError(err) && strings.HasPrefix(gvk.Kind, "MutatingAdmissionPolicy") {
					t.Logf("%s: this Kubernetes does not serve %s %s, as the page says of versions before 1.36", page, gvk.Kind, object.GetName())
					continue
				}
				testplane.Eventually(t, func() string { // CRDs are served some time after they are created
					err := applyDryRun(t.Context(), c, object)
					if err != nil && !apierrors.IsNotFound(err) {
						t.Fatalf("%s: %s %s: %v", page, object.GetKind(), object.GetName(), err)
					}
					return errorText(err)
				})
			}
		}
		if checked != want {
			t.Errorf("%s shows %d objects, want %d", page, checked, want)
		}
	}
}

// The values of docs/concepts/scheduling.md enable scheduling as described there.
func TestSchedulingValuesInDocsEnableScheduling(t *testing.T) {
	blocks := yamlBlocks(t, "concepts/scheduling.md")
	at := slices.IndexFunc(blocks, func(block string) bool { return strings.HasPrefix(block, "# values.yaml\n") })
	if at < 0 {
		t.Fatal("docs/concepts/scheduling.md has no block of values.yaml")
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(blocks[at]), 0o600); err != nil {
		t.Fatal(err)
	}
	objects := render(t, "--values", "breakwater/ci/single.yaml", "--values", file)
	all := objectsOfKind[admissionregistrationv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration")
	if len(all) != 1 || *all[0].Webhooks[0].FailurePolicy != admissionregistrationv1.Ignore || *all[0].Webhooks[0].TimeoutSeconds != 2 {
		t.Errorf("%+v", all)
	}
}
