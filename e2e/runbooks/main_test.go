// Package runbooks_test breaks Breakwater as alerts tell, and does what their runbooks in docs/runbooks say: each alert is not active
// before, is active while it is broken, and the commands of its page say what the page shows, until it is over. Its federation is nobody
// else's.
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

// tiltedWebhook is the one that reaches the core by a clock that can be wrong.
var tiltedWebhook = install.WebhookName(1)

var (
	suite = e2e.NewSuite("federated", func(o *install.Options) {
		o.Metrics, o.Scheduling = true, true
		tilted = newTilt(o.Cores[0], o.Dir)
		o.Kubeconfig = func(component string, cluster federation.Cluster) string {
			if component == tiltedWebhook && cluster.Name() == o.Cores[0].Name() {
				return tilted.kubeconfig
			}
			return cluster.Kubeconfig()
		}
	})
	// tilted stands before the apiserver of the core.
	tilted *tilt
	// alerts tell which are active.
	alerts monitor
)

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "breakwater-runbooks-")
	if err != nil {
		panic(err) // there is no test yet that could fail
	}
	if err := flag.Set("test.parallel", "8"); err != nil { // lanes wait, and do not reckon
		panic(err)
	}
	plugin = build(filepath.Join(folder, "kubectl-breakwater"))
	code := suite.Main(m)
	<-plugin.built
	tilted.stop()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

type lab = e2e.Lab

// program is built while the federation comes up.
type program struct {
	path  string
	built chan struct{}
	err   error
}

// plugin is kubectl breakwater.
var plugin *program

func build(path string) *program {
	p := &program{path: path, built: make(chan struct{})}
	go func() {
		defer close(p.built)
		p.err = binaries.Build(context.Background(), path, binaries.KubectlBreakwater)
	}()
	return p
}

// staleAfter is as short as a Cell allows.
const staleAfter = 20 * time.Second
