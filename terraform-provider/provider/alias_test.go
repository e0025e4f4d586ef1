package provider_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// namespaceInSecond creates a namespace in the second cluster.
func namespaceInSecond(t *testing.T, name string) *rest.Config {
	t.Helper()
	second := testplane.Second(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := kubernetes.NewForConfigOrDie(second).CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return second
}

func TestAliasesUseTheirClusters(t *testing.T) {
	withBoth(t, func(t *testing.T) {
		namespace, first := testplane.Namespace(t), testplane.Config(t)
		second := namespaceInSecond(t, namespace)
		file := filepath.Join(t.TempDir(), "second")
		if err := os.WriteFile(file, testplane.KubeconfigOf(t, second), 0o600); err != nil {
			t.Fatal(err)
		}
		alias := strings.Replace(protectorIn(namespace, "provider = breakwater.second"), `"web" {`, `"second" {`, 1)
		alias = strings.Replace(alias, `min_available       = "1"`, `min_available       = "2"`, 1)
		r := workingDir(t, fmt.Sprintf(`
provider "breakwater" {
  config_path = %q
}
provider "breakwater" {
  alias       = "second"
  config_path = %q
}
`, testplane.Kubeconfig(t), file)+protectorIn(namespace, "")+alias,
			// The environment of the shell must not point both aliases to one cluster.
			"KUBE_HOST="+first.Host, "KUBECONFIG="+testplane.Kubeconfig(t))
		r.Run("apply", "-auto-approve")
		for core, want := range map[*rest.Config]string{first: "1", second: "2"} {
			if floor := floorIn(t, core, namespace); floor != want {
				t.Errorf("floor in %s = %q, want %q", core.Host, floor, want)
			}
		}
		if out := r.Run("plan", "-detailed-exitcode"); !strings.Contains(out, "No changes") {
			t.Error(out)
		}
	})
}

func TestPlanWarnsIfClusterIsUnreachable(t *testing.T) {
	nowhere := testplane.FreeAddress(t)
	forEachProgram(t, func(t *testing.T) {
		for claim, c := range map[string]struct{ configuration, want string }{
			"a silent cluster":  {fmt.Sprintf("host = \"https://%s\"", nowhere), "The plan was made without the cluster"},
			"no cluster at all": {"config_path = \"/no/such/file\"", "The configuration of the provider does not identify a cluster"},
		} {
			t.Run(claim, func(t *testing.T) {
				r := workingDir(t, "provider \"breakwater\" {\n  "+c.configuration+"\n}\n"+protectorIn("default", ""))
				out := r.Run("plan")
				if !strings.Contains(out, "Warning: "+c.want) || !strings.Contains(out, "1 to add") {
					t.Errorf("want a warning %q, and a plan:\n%s", c.want, out)
				}
			})
		}
	})
}
