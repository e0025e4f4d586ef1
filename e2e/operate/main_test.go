// Package operate_test works with a federation as the engineer on call does: by kubectl breakwater, metrics and alerts, the console and the
// runbooks.
package operate_test

import (
	"os"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

var operate = e2e.NewSuite("federated", func(options *install.Options) { options.Metrics = true })

func TestMain(m *testing.M) { os.Exit(operate.Main(m)) }

type lab = e2e.Lab

// claim runs a test as a feature of e2e-framework, in its own namespace.
func claim(t *testing.T, name string, prove func(l *lab)) {
	t.Helper()
	operate.Claim(t, name, prove)
}
