// Package accidents_test causes accidents that delete, scale down or edit the workloads themselves. It uses a real control plane and
// installs Breakwater with its charts as the README describes. It asserts that the floors stay in force, and writes accidents-report.
package accidents_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
)

const root = "../../"

// All tests of the package share this suite, except those in a federation.
var singleSuite = e2e.NewSuiteWith("single", func(ctx context.Context, s *e2e.Suite) (func(), error) {
	r, err := setup(s.Program(), s.Dir()).Single(ctx, s.Federation().Clusters()[0])
	if err != nil {
		return nil, err
	}
	return r.Close, nil
})

func TestMain(m *testing.M) { os.Exit(singleSuite.Main(m)) }

// setup installs the charts with their defaults.
func setup(program, dir string) release.Setup {
	return release.Setup{Program: program, Dir: dir, Charts: root + "charts/", Deadline: e2e.AdmissionDeadline}
}

// startFederation starts a core and two workers with Breakwater. They run until the test ends.
func startFederation(t *testing.T) *e2e.Fixture {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	topology, err := federation.Embedded("federated")
	must(err)
	dir := t.TempDir()
	f, err := local.Start(t.Context(), topology, local.Options{
		Binaries: filepath.SplitList(os.Getenv(local.BinariesVariable)), Dir: filepath.Join(dir, "federation"), Log: logr.Discard(),
	})
	must(err)
	t.Cleanup(func() { must(f.Stop(context.Background())) })
	installed, err := setup(singleSuite.Program(), dir).Federation(t.Context(), f.Cores()[0], f.Workers())
	must(err)
	t.Cleanup(installed.Close)
	s, err := e2e.NewSuiteOn(f)
	must(err)
	l := s.NewFixture(t, nil)
	l.WaitForReadyCells(installed.Problems)
	return l
}
