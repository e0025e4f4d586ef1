// Package runbooks_test injects the faults that alerts report, and follows the runbooks in docs/runbooks. Each alert must be active only
// during its fault, and the commands of its page must print the output on the page. No other package uses its federation.
package runbooks_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/binaries"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

// skewedWebhook is the webhook replica that connects to the core through a proxy whose clock can be wrong.
var skewedWebhook = install.WebhookName(1)

var (
	suite = e2e.NewSuite("federated", func(o *install.Options) {
		o.Metrics, o.Scheduling = true, true
		coreProxy = newSkewedProxy(o.Cores[0], o.Dir)
		o.Kubeconfig = func(component string, cluster federation.Cluster) string {
			if component == skewedWebhook && cluster.Name() == o.Cores[0].Name() {
				return coreProxy.kubeconfig
			}
			return cluster.Kubeconfig()
		}
	})
	// coreProxy is the proxy of the API server of the core.
	coreProxy *skewedProxy
	// alerts reports the active alerts.
	alerts alertMonitor
)

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "breakwater-runbooks-")
	if err != nil {
		panic(err) // there is no test yet that could fail
	}
	if err := flag.Set("test.parallel", "8"); err != nil { // parallel tests mostly wait, and use little CPU
		panic(err)
	}
	plugin = startBuild(filepath.Join(folder, "kubectl-breakwater"))
	code := suite.Main(m)
	<-plugin.built
	coreProxy.stop()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

type fixture = e2e.Fixture

// program is built while the federation starts.
type program struct {
	path  string
	built chan struct{}
	err   error
}

// plugin is the kubectl plugin kubectl-breakwater.
var plugin *program

func startBuild(path string) *program {
	p := &program{path: path, built: make(chan struct{})}
	go func() {
		defer close(p.built)
		p.err = binaries.Build(context.Background(), path, binaries.KubectlBreakwater)
	}()
	return p
}

// staleAfter is the shortest value that a Cell allows.
const staleAfter = 20 * time.Second
