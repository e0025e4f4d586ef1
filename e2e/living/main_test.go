// Package living_test runs the clients that remove pods in daily operation: real kubectl, the real controllers and scheduler of Kubernetes, and
// eviction loops like that of cluster-autoscaler. Each is denied without budget, no floor breaks, and each completes without help when budget
// exists again. docs/how-to/clients.md describes this for users.
package living_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
)

var livingSuite = e2e.NewSuite("federated", nil)

func TestMain(m *testing.M) {
	// Most of the time the tests wait for the pauses of a caller, which take seconds. So they run in parallel.
	if err := flag.Set("test.parallel", "12"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(livingSuite.Main(m))
}

type fixture = e2e.Fixture

// claim runs a test in parallel with others. Each test has its own namespace, and its own nodes if it changes nodes.
func claim(t *testing.T, name string, verify func(l *fixture)) {
	t.Helper()
	t.Parallel()
	livingSuite.Claim(t, name, verify)
}
