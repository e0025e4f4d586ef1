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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// blocksOf are the pieces of YAML of a page.
func blocksOf(t *testing.T, page string) (blocks []string) {
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

// What pages show is what users apply.
func TestAnAPIServerAcceptsWhatPagesShow(t *testing.T) {
	c := apiserver(t)
	for page, want := range map[string]int{"scheduling.md": 6, "concepts.md": 1} {
		looked := 0
		for _, block := range blocksOf(t, page) {
			for _, object := range parse(t, block) {
				if object.GetKind() == "" {
					continue // values of the chart
				}
				if namespace := object.GetNamespace(); namespace != "" {
					err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
					if err != nil && !apierrors.IsAlreadyExists(err) {
						t.Fatal(err)
					}
				}
				looked++
				testplane.Eventually(t, func() string { // definitions are served some time after they are made
					err := accept(t.Context(), c, object)
					if err != nil && !apierrors.IsNotFound(err) {
						t.Fatalf("%s: %s %s: %v", page, object.GetKind(), object.GetName(), err)
					}
					return word(err)
				})
			}
		}
		if looked != want {
			t.Errorf("%s shows %d objects, want %d", page, looked, want)
		}
	}
}

// The values of docs/scheduling.md turn it on, and what it says of them is so.
func TestTheChartTakesTheValuesOfSchedulingAsTheyAreShown(t *testing.T) {
	blocks := blocksOf(t, "scheduling.md")
	at := slices.IndexFunc(blocks, func(block string) bool { return strings.HasPrefix(block, "# values.yaml\n") })
	if at < 0 {
		t.Fatal("the page has no values.yaml")
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(blocks[at]), 0o600); err != nil {
		t.Fatal(err)
	}
	shown := render(t, "--values", "breakwater/ci/single.yaml", "--values", file)
	all := typed[admissionregistrationv1.MutatingWebhookConfiguration](t, shown, "MutatingWebhookConfiguration")
	if len(all) != 1 || *all[0].Webhooks[0].FailurePolicy != admissionregistrationv1.Ignore || *all[0].Webhooks[0].TimeoutSeconds != 2 {
		t.Errorf("%+v", all)
	}
}
