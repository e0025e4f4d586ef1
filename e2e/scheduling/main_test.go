// Package scheduling_test tests PodSchedulingPolicies in a realistic setup: policies in a core cluster, pods in worker clusters with zones and
// node pools, and the controllers and the scheduler of Kubernetes, which do not know policies.
package scheduling_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

var schedulingSuite = e2e.NewSuiteWith("federated", startSuite)

func TestMain(m *testing.M) {
	// Most of the time the tests wait for controllers, for the scheduler, and for webhooks that write at intervals.
	if err := flag.Set("test.parallel", "12"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(schedulingSuite.Main(m))
}

func startSuite(ctx context.Context, s *e2e.Suite) (stop func(), err error) {
	for _, worker := range s.Federation().Workers() {
		if err := createNodes(ctx, worker); err != nil {
			return nil, err
		}
	}
	s.Breakwater, err = install.Start(ctx, install.Options{
		Program: s.Program(), Dir: s.Dir(), Cores: s.Federation().Cores(), Workers: s.Federation().Workers(), Scheduling: true,
	})
	if err != nil {
		return nil, err
	}
	return nil, s.Breakwater.EnableWebhooks(ctx)
}

type fixture = e2e.Fixture

// claim runs a test in parallel with others, in its own namespace. All tests share the nodes.
func claim(t *testing.T, name string, verify func(l *fixture)) {
	t.Helper()
	t.Parallel()
	schedulingSuite.Claim(t, name, verify)
}

// claimAlone runs a test alone, because it disturbs components or nodes that other tests need.
func claimAlone(t *testing.T, name string, verify func(l *fixture)) {
	t.Helper()
	schedulingSuite.Claim(t, name, verify)
}
