package gitops_test

import (
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/gitops"
	"github.com/breakwater-k8s/breakwater/e2e/harness/doctest"
)

// The command that docs/how-to/install.md gives for a certificate that is not issued also shows an issued one.
func TestDocumentedCertificateCommandsShowCertificates(t *testing.T) {
	command, err := doctest.Mentioned(root, "docs/how-to/install.md", "kubectl describe certificate ")
	noErrors(t, err)
	arguments := append([]string{"--kubeconfig=" + fixture.Cluster.Kubeconfig()}, strings.Fields(command)[1:]...)
	out, err := gitops.Output(t.Context(), nil, "kubectl", arguments...)
	noErrors(t, err)
	if !strings.Contains(string(out), "Certificate is up to date") {
		t.Errorf("%s does not show the certificate:\n%s", command, out)
	}
}
