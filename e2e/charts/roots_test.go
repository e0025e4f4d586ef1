package charts_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

func TestKubectlWarnsOfADeletion(t *testing.T) {
	single.Claim(t, "kubectl prints how many floors and pods depend on a namespace", func(l *e2e.Lab) {
		l.AwaitCells(installed.Complaints)
		l.Must(l.Core.Create(l.Context(), policyOf(l)))
		deploy(l, 8)
		awaitProtector(l, "deployment-web", 6)
		kubectl, err := local.BuiltProgram("kubectl")
		l.Must(err)
		want := fmt.Sprintf(`Warning: Breakwater: deleting Namespace %q affects 1 floor that keeps 6 pods available; it stays in force until you confirm: `+
			`kubectl annotate namespace %s breakwater.dev/confirm-release=true`, l.Namespace, l.Namespace)
		l.Eventually(func() string { // the webhook reads PodProtectors from a watch
			command := exec.CommandContext(l.Context(), kubectl, "delete", "namespace", l.Namespace, "--dry-run=server")
			command.Env = append(os.Environ(), "KUBECONFIG="+installed.Cluster.Kubeconfig(), "HOME="+l.TempDir())
			if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
				return fmt.Sprintf("error %v and output %q, want %q", err, out, want)
			}
			return ""
		})
		l.Must(installed.Complaints())
	})
}
