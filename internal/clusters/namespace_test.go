package clusters_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

func TestNamespaceOfContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := os.WriteFile(path, []byte(`{apiVersion: v1, kind: Config, current-context: shop, clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}],
contexts: [{name: shop, context: {cluster: c, namespace: shop}}, {name: plain, context: {cluster: c}}]}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for claim, test := range map[string]struct {
		connection clusters.Connection
		want       string
	}{
		"of the current context": {clusters.Connection{Kubeconfig: path}, "shop"},
		"of the given context":   {clusters.Connection{Kubeconfig: path, Context: "plain"}, "default"},
	} {
		t.Run(claim, func(t *testing.T) {
			if got, err := test.connection.Namespace(); got != test.want || err != nil {
				t.Errorf("namespace %q, error %v, want %q", got, err, test.want)
			}
		})
	}
	missing := clusters.Connection{Kubeconfig: filepath.Join(filepath.Dir(path), "none")}
	if got, err := missing.Namespace(); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("missing kubeconfig: namespace %q, error %v", got, err)
	}
}
