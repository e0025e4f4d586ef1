// Package runbooks_test injects the faults that alerts report, and follows their runbooks in docs/runbooks: each alert is active only
// during its fault, and the commands of its page print what the page shows. No other package uses its federation.
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

// skewedWebhook is the one that reaches the core by a clock that can be wrong.
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
	// coreProxy stands before the apiserver of the core.
	coreProxy *skewedProxy
	// alerts tell which are active.
	alerts alertMonitor
)

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "breakwater-runbooks-")
	if err != nil {
		panic(err) // there is no test yet that could fail
	}
	if err := flag.Set("test.parallel", "8"); err != nil { // lanes wait, and use little CPU
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

// program is built while the federation comes up.
type program struct {
	path  string
	built chan struct{}
	err   error
}

// plugin is kubectl breakwater.
var plugin *program

func startBuild(path string) *program {
	p := &program{path: path, built: make(chan struct{})}
	go func() {
		defer close(p.built)
		p.err = binaries.Build(context.Background(), path, binaries.KubectlBreakwater)
	}()
	return p
}

// staleAfter is as short as a Cell allows.
const staleAfter = 20 * time.Second
