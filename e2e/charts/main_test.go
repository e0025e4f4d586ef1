// Package charts_test installs Breakwater with its charts in one cluster, runs storms, and upgrades and uninstalls the release.
package charts_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
)

const folder = "../../charts/"

// All tests of the package share these.
var (
	single    = e2e.NewSuiteWith("single", startSuite)
	installed *release.Release
	// network leads API servers to webhooks without a URL, as in releases without values.
	network *release.Network
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "charts-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if network, err = release.NewNetwork(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer network.Close()
	single.APIServerArguments = func(federation.ClusterSpec) []string { return []string{network.APIServerArgument()} }
	return single.Main(m)
}

func startSuite(ctx context.Context, s *e2e.Suite) (func(), error) {
	setup := release.Setup{Program: s.Program(), Dir: s.Dir(), Charts: folder, Deadline: e2e.AdmissionDeadline, Scheduling: true}
	r, err := setup.Single(ctx, s.Federation().Clusters()[0])
	if err != nil {
		return nil, err
	}
	installed = r
	network.Route(r.Kubelet)
	return r.Close, r.HoldPods(ctx)
}
