// Package operate_test operates a federation with the tools of an on-call engineer: kubectl breakwater, metrics and alerts, the console and the
// runbooks.
package operate_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

var operateSuite = e2e.NewSuite("federated", func(o *install.Options) {
	o.Metrics = true
	for _, cluster := range slices.Concat(o.Cores, o.Workers) {
		raw, err := os.ReadFile(cluster.Kubeconfig())
		if err == nil {
			err = os.WriteFile(webhookKubeconfig(o.Dir, cluster), raw, 0o600)
		}
		if err != nil {
			panic(err) // there is no test yet that could fail
		}
	}
	folder := o.Dir
	o.Kubeconfig = func(component string, cluster federation.Cluster) string {
		if strings.HasPrefix(component, "webhook-") {
			return webhookKubeconfig(folder, cluster)
		}
		return cluster.Kubeconfig()
	}
})

// webhookKubeconfig returns the path of the kubeconfig with which the webhooks reach a cluster. It starts as a copy of the administrator's, and a
// test can replace it.
func webhookKubeconfig(folder string, cluster federation.Cluster) string {
	return filepath.Join(folder, "webhook-"+cluster.Name()+".kubeconfig")
}

func TestMain(m *testing.M) { os.Exit(operateSuite.Main(m)) }

type fixture = e2e.Fixture

// claim runs a test as a feature of e2e-framework, in its own namespace.
func claim(t *testing.T, name string, verify func(l *fixture)) {
	t.Helper()
	operateSuite.Claim(t, name, verify)
}
