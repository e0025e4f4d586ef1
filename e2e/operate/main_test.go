// Package operate_test operates a federation with the tools of an on-call engineer: kubectl breakwater, metrics and alerts, the console and the
// runbooks.
package operate_test

import (
	"os"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

var operateSuite = e2e.NewSuite("federated", func(options *install.Options) { options.Metrics = true })

func TestMain(m *testing.M) { os.Exit(operateSuite.Main(m)) }

type fixture = e2e.Fixture

// claim runs a test as a feature of e2e-framework, in its own namespace.
func claim(t *testing.T, name string, verify func(l *fixture)) {
	t.Helper()
	operateSuite.Claim(t, name, verify)
}
