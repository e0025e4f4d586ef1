// Package runbooks_test breaks Breakwater as alerts tell, and does what their runbooks in docs/runbooks say: each alert is not active
// before, is active while it is broken, and the commands of its page say what the page shows, until it is over. Its federation is nobody
// else's.
package runbooks_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/internal/federation"
	"github.com/breakwater-k8s/breakwater/internal/install"
)

// tiltedWebhook is the one that reaches the core by a clock that can be wrong.
var tiltedWebhook = install.WebhookName(1)

var (
	suite = e2e.NewSuite("federated", func(o *install.Options) {
		o.Metrics = true
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
	alerts *prometheus
)

func TestMain(m *testing.M) {
	code := suite.Main(m)
	alerts.stop()
	tilted.stop()
	os.Exit(code)
}

type lab = e2e.Lab

// plugin builds kubectl breakwater beside breakwater.
func plugin(ctx context.Context) error {
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(suite.Dir(), "kubectl-breakwater"), "github.com/breakwater-k8s/breakwater/cmd/kubectl-breakwater")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build kubectl-breakwater: %w\n%s", err, out)
	}
	return nil
}

// staleAfter is as short as a Cell allows.
const staleAfter = 20 * time.Second
