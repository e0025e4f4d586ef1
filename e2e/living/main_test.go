// Package living_test plays those who remove pods every day, as they are: real kubectl, the real controllers and scheduler of
// Kubernetes, and eviction loops like that of cluster-autoscaler. Each is refused while there is no budget, no floor breaks
// meanwhile, and each comes to its end when there is budget again, without anybody's help. docs/living.md tells it to users.
package living_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
)

var living = e2e.NewSuite("federated", nil)

func TestMain(m *testing.M) {
	// Most of the time the tests wait for a caller's own pause, which is seconds: all wait at the same time.
	if err := flag.Set("test.parallel", "12"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(living.Main(m))
}

type lab = e2e.Lab

// claim runs a test beside the others: each has its own namespace, and its own nodes where it does something to them.
func claim(t *testing.T, name string, prove func(l *lab)) {
	t.Helper()
	t.Parallel()
	living.Claim(t, name, prove)
}
