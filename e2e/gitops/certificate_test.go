package gitops_test

import (
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/gitops"
	"github.com/breakwater-k8s/breakwater/e2e/harness/doctest"
)

// What docs/install.md says in a sentence of a certificate that is not issued tells of one that is, too.
func TestWhatIsSaidOfCertificatesShowsThem(t *testing.T) {
	said, err := doctest.Mentioned(root, "docs/install.md", "kubectl describe certificate ")
	must(t, err)
	arguments := append([]string{"--kubeconfig=" + stage.Cluster.Kubeconfig()}, strings.Fields(said)[1:]...)
	out, err := gitops.Output(t.Context(), nil, "kubectl", arguments...)
	must(t, err)
	if !strings.Contains(string(out), "Certificate is up to date") {
		t.Errorf("%s does not tell of the certificate:\n%s", said, out)
	}
}
