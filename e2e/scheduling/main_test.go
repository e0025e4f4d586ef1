// Package scheduling_test plays PodSchedulingPolicies as their users have them: policies in a core cluster, pods in the clusters of workers
// with zones and pools of nodes, and Kubernetes' own controllers and scheduler, which know nothing of policies.
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
	// Most of the time tests wait for others: for controllers, the scheduler, and what webhooks write now and then.
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

// claim runs a test beside the others, in its own namespace. The nodes are for all.
func claim(t *testing.T, name string, verify func(l *fixture)) {
	t.Helper()
	t.Parallel()
	schedulingSuite.Claim(t, name, verify)
}

// claimAlone runs a test that disturbs what others need.
func claimAlone(t *testing.T, name string, verify func(l *fixture)) {
	t.Helper()
	schedulingSuite.Claim(t, name, verify)
}
