// Package charts_test installs Breakwater with its charts in one cluster, runs storms, and upgrades and uninstalls the release.
package charts_test

import (
	"context"
	"os"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
)

const folder = "../../charts/"

// All tests of the package share these.
var (
	single    = e2e.NewSuiteWith("single", startSuite)
	installed *release.Release
)

func TestMain(m *testing.M) { os.Exit(single.Main(m)) }

func startSuite(ctx context.Context, s *e2e.Suite) (func(), error) {
	setup := release.Setup{Program: s.Program(), Dir: s.Dir(), Charts: folder, Deadline: e2e.AdmissionDeadline, Scheduling: true}
	r, err := setup.Single(ctx, s.Federation().Clusters()[0])
	if err != nil {
		return nil, err
	}
	installed = r
	return r.Close, nil
}
