package charts_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
)

func TestKubectlWarnsOfDeletion(t *testing.T) {
	single.Claim(t, "kubectl prints how many floors and pods depend on a namespace", func(l *e2e.Fixture) {
		l.WaitForReadyCells(installed.Problems)
		l.Must(l.Core.Create(l.Context(), createPolicy(l)))
		createDeployment(l, 8)
		waitForProtector(l, "deployment-web", 6)
		const counts = "Warning: Breakwater: 1 floor that keeps 6 pods available (now "
		rest := fmt.Sprintf(`) depends on Namespace %q: it stays in force until you confirm: kubectl annotate namespace %s breakwater.dev/confirm-release=true`,
			l.Namespace, l.Namespace)
		l.Eventually(func() string { // the webhook reads PodProtectors from a watch
			out := e2e.RunTool(l.Context(), l, "kubectl", installed.Cluster.Kubeconfig(), "delete", "namespace", l.Namespace, "--dry-run=server")
			if !strings.Contains(out, counts) || !strings.Contains(out, rest) {
				return fmt.Sprintf("kubectl printed %q, want %q and %q", out, counts, rest)
			}
			return ""
		})
		l.Must(installed.Problems())
	})
}
