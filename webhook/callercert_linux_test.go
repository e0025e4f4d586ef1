package webhook_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/webhook/register"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// A real kube-apiserver presents the client certificate that the kubeconfig of its admission configuration has for a
// webhook's host. Each namespace uses another address of the same webhook, and so another certificate. Linux has all of
// 127.0.0.0/8.
func TestKubeAPIServerPresentsItsClientCertificate(t *testing.T) {
	t.Parallel()
	callers := newAuthority(t)
	_, port, err := net.SplitHostPort(testplane.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	address := func(host string) string { return net.JoinHostPort(host, port) }
	const named, misnamed, anonymous = "127.0.0.1", "127.0.0.2", "127.0.0.3"
	config := testplane.WithArguments(t, "--admission-control-config-file="+admissionConfigurationOf(t, map[string]*clientcmdapi.AuthInfo{
		address(named): clientOf(callers, "breakwater-caller"), address(misnamed): clientOf(callers, "system:node:worker-1"),
	}))
	l := &fixture{TB: t, core: "core", config: config, scheme: clusters.Scheme(), namespace: "named", cell: "here"}
	l.connect()
	l.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}})
	l.protect("web", 1, 2)
	r := l.serve(func(s *replicaOptions) {
		s.server.Listen = address("0.0.0.0")
		s.server.ClientCAFile, s.server.ClientNames = write(t, t.TempDir(), "ca.crt", callers.pem()), []string{"breakwater-caller"}
	})
	register := func(host string, of *fixture, shows func(error) bool) {
		of.register(register.Endpoint{URL: "https://" + address(host), CABundle: r.authority.pem()})
		of.awaitConfiguration(shows)
	}
	register(named, l, func(error) bool { return r.count("breakwater_webhook_reviews_total") > 0 })
	pods := l.pods(2)
	if err := eviction(l, pods[0]); err != nil {
		t.Errorf("eviction asked about with the certificate: %v, want it to be admitted", err)
	}
	if err := eviction(l, pods[1]); err == nil || !strings.Contains(err.Error(), "web") || strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("eviction below the floor, asked about with the certificate: %v, want the webhook's denial", err)
	}
	l.wantReserved("web", 1)
	reviews := r.count("breakwater_webhook_reviews_total")
	for claim, c := range map[string]struct{ host, namespace string }{
		"a certificate of the same CA with another name": {misnamed, "misnamed"},
		"no certificate": {anonymous, "anonymous"},
	} {
		other := *l
		other.namespace = c.namespace
		other.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}})
		// The API server cannot call the webhook, so it refuses the removal.
		register(c.host, &other, func(err error) bool { return err != nil && strings.Contains(err.Error(), "failed calling webhook") })
		if err := eviction(&other, other.pod("web-0")); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			t.Errorf("eviction asked about with %s: %v, want the call to fail", claim, err)
		}
	}
	if got := r.count("breakwater_webhook_reviews_total"); got != reviews {
		t.Errorf("%d reviews of callers without the certificate reached the webhook, want none", got-reviews)
	}
}

func clientOf(a *authority, name string) *clientcmdapi.AuthInfo {
	certificate, key := a.sign(name)
	return &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
}

// admissionConfigurationOf writes the configuration of docs/how-to/certificates.md, with users by the host and port of a
// webhook.
func admissionConfigurationOf(t *testing.T, users map[string]*clientcmdapi.AuthInfo) string {
	t.Helper()
	folder := t.TempDir()
	kubeconfig := filepath.Join(folder, "callers.kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{AuthInfos: users}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join("..", "docs", "how-to", "certificates.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(raw), "```yaml\napiVersion: apiserver.config.k8s.io/v1\n")
	block, _, found := strings.Cut(block, "```")
	const path = "/etc/kubernetes/breakwater/callers.kubeconfig"
	if !found || !strings.Contains(block, path) {
		t.Fatalf("the page shows no admission configuration that reads %s", path)
	}
	content := fmt.Sprintf("apiVersion: apiserver.config.k8s.io/v1\n%s", strings.ReplaceAll(block, path, kubeconfig))
	return write(t, folder, "admission.yaml", []byte(content))
}
