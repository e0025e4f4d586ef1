package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/env"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/envfuncs"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/internal/federation"
	"github.com/breakwater-k8s/breakwater/internal/federation/local"
	"github.com/breakwater-k8s/breakwater/internal/install"
	"github.com/breakwater-k8s/breakwater/internal/storm"
)

// The apiservers give up a request sooner than they usually do, so that the admission deadline, which follows
// from that, can be waited for.
const (
	requestTimeout    = 10 * time.Second
	admissionDeadline = 12 * time.Second
	leaseDuration     = 4 * time.Second
)

// suite is the federation and the Breakwater that all tests of a run share.
type suite struct {
	testenv env.Environment
	dir     string
	shared  *e2e.Shared

	breakwater *install.Installation
	core       client.Client
	cells      []storm.Cell
}

// loop is how TestMain hands it to the tests.
var loop suite

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "breakwater-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		loop = suite{testenv: env.New(), dir: dir}
		loop.shared = &e2e.Shared{Start: loop.startFederation}
		names := []string{"core", "worker-1", "worker-2"}
		for _, name := range names {
			loop.testenv.Setup(envfuncs.CreateCluster(loop.shared.Provider(), name))
		}
		loop.testenv.Setup(loop.install)
		loop.testenv.Finish(loop.uninstall)
		for _, name := range names {
			loop.testenv.Finish(envfuncs.DestroyCluster(name))
		}
		return loop.testenv.Run(m)
	}())
}

func (s *suite) startFederation(ctx context.Context) (federation.Federation, error) {
	topology, err := federation.Embedded("federated")
	if err != nil {
		return nil, err
	}
	return local.Start(ctx, topology, local.Options{
		Binaries: filepath.SplitList(os.Getenv(local.BinariesVariable)), Dir: filepath.Join(s.dir, "federation"),
		Log: logr.Discard(), APIServerArguments: []string{"--request-timeout=" + requestTimeout.String()},
	})
}

// install builds breakwater and runs it beside the federation.
func (s *suite) install(ctx context.Context, _ *envconf.Config) (context.Context, error) {
	program := filepath.Join(s.dir, "breakwater")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "../cmd/breakwater").CombinedOutput(); err != nil {
		return ctx, fmt.Errorf("build breakwater: %w\n%s", err, out)
	}
	f := s.shared.Federation()
	core := f.Cores()[0]
	var err error
	if s.core, err = install.Client(core); err != nil {
		return ctx, err
	}
	for _, worker := range f.Workers() {
		cell, err := storm.NewCell(worker.Name(), worker.RESTConfig())
		if err != nil {
			return ctx, err
		}
		s.cells = append(s.cells, cell)
	}
	s.breakwater, err = install.Start(ctx, install.Options{
		Program: program, Dir: s.dir, Cores: f.Cores(), Workers: f.Workers(), AdmissionDeadline: admissionDeadline,
		AggregatorArguments: []string{"--lease-duration=" + leaseDuration.String()},
	})
	if err != nil {
		return ctx, err
	}
	return ctx, s.breakwater.Guard(ctx)
}

func (s *suite) uninstall(ctx context.Context, _ *envconf.Config) (context.Context, error) {
	if s.breakwater != nil {
		s.breakwater.Stop()
	}
	return ctx, nil
}
