package gitops_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/pages"
)

// What docs/install.md says in a sentence of a certificate that is not issued tells of one that is, too.
func TestWhatIsSaidOfCertificatesShowsThem(t *testing.T) {
	page, err := pages.Read(root, "docs/install.md")
	must(t, err)
	at := slices.IndexFunc(page.Mentions, func(m pages.Mention) bool { return strings.HasPrefix(m.Text, "kubectl describe certificate ") })
	if at < 0 {
		t.Fatal("docs/install.md does not say any more how to look at certificates")
	}
	arguments := append([]string{"--kubeconfig=" + stage.cluster.Kubeconfig()}, strings.Fields(page.Mentions[at].Text)[1:]...)
	out, err := output(t.Context(), nil, "kubectl", arguments...)
	must(t, err)
	if !strings.Contains(string(out), "Certificate is up to date") {
		t.Errorf("%s does not tell of the certificate:\n%s", page.Mentions[at].Text, out)
	}
}
