package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/e2e-framework/pkg/env"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/envfuncs"

	"github.com/breakwater-k8s/breakwater/e2e/harness/binaries"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// The API servers time out requests sooner than by default. The admission deadline depends on that timeout, so tests can wait for it.
const (
	requestTimeout = 10 * time.Second
	leaseDuration  = 4 * time.Second
	// AdmissionDeadline is the admission deadline of all Cells.
	AdmissionDeadline = 12 * time.Second
)

// Suite is the federation and the installation of Breakwater that all tests of a package share.
type Suite struct {
	// Breakwater, Cores and Cells are set while tests run.
	Breakwater *install.Installation
	Cores      []Core
	Cells      []storm.Cell
	// Timeout bounds the waits of fixtures; 0 means DefaultTimeout.
	Timeout time.Duration
	// APIServerArguments returns additional flags of a cluster's kube-apiserver. It is called each time that the kube-apiserver starts. nil
	// adds none. Set it before Main.
	APIServerArguments func(federation.ClusterSpec) []string
	// Prepare is called when the federation runs and Breakwater is not installed yet. nil does nothing. Set it before Main.
	Prepare func(ctx context.Context, f federation.Federation) error

	topology  string
	configure func(*install.Options)
	start     func(ctx context.Context, s *Suite) (stop func(), err error)
	stop      func()
	dir       string
	testenv   env.Environment
	shared    *SharedFederation
}

// Core is a core cluster.
type Core struct {
	Name string
	client.Client
}

// NewSuite returns a suite on one of the built-in topologies. configure may be nil.
func NewSuite(topology string, configure func(*install.Options)) *Suite {
	s := &Suite{topology: topology, configure: configure, testenv: env.New()}
	s.shared = &SharedFederation{Start: s.startFederation}
	return s
}

// NewSuiteOn returns a suite on a running federation. The caller installs and uninstalls Breakwater.
func NewSuiteOn(f federation.Federation) (*Suite, error) {
	s := &Suite{shared: &SharedFederation{federation: f}, dir: f.Dir()}
	return s, s.connect(f)
}

func (s *Suite) connect(f federation.Federation) error {
	for _, core := range f.Cores() {
		c, err := install.Client(core)
		if err != nil {
			return err
		}
		s.Cores = append(s.Cores, Core{Name: core.Name(), Client: c})
	}
	for _, worker := range f.Workers() {
		cell, err := storm.NewCell(worker.Name(), worker.RESTConfig())
		if err != nil {
			return err
		}
		s.Cells = append(s.Cells, cell)
	}
	return nil
}

func (s *Suite) timeout() time.Duration { return cmp.Or(s.Timeout, DefaultTimeout) }

// NewSuiteWith returns a suite in which start installs Breakwater instead of package install. start is called when the program is built and
// the federation runs.
func NewSuiteWith(topology string, start func(ctx context.Context, s *Suite) (stop func(), err error)) *Suite {
	s := NewSuite(topology, nil)
	s.start = start
	return s
}

// Federation returns the running federation.
func (s *Suite) Federation() federation.Federation { return s.shared.Federation() }

// Main starts the federation, installs Breakwater, runs the tests of a package, and stops everything. Call it from TestMain, and exit with
// the code that it returns. If the flags of the test binary select no test of the package, it starts nothing.
func (s *Suite) Main(m *testing.M) int {
	log.SetLogger(logr.Discard()) // client libraries warn if no logger is set
	if !selectsTests(m) {
		return m.Run()
	}
	topology, err := federation.Embedded(s.topology)
	if err == nil {
		s.dir, err = os.MkdirTemp("", "breakwater-e2e-")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(s.dir)
	for _, cluster := range topology.Clusters {
		s.testenv.Setup(envfuncs.CreateCluster(s.shared.Provider(), cluster.Name))
	}
	s.testenv.Setup(s.install)
	s.testenv.Finish(s.uninstall)
	for _, cluster := range topology.Clusters {
		s.testenv.Finish(envfuncs.DestroyCluster(cluster.Name))
	}
	return s.testenv.Run(m)
}

func (s *Suite) startFederation(ctx context.Context) (federation.Federation, error) {
	topology, err := federation.Embedded(s.topology)
	if err != nil {
		return nil, err
	}
	return local.Start(ctx, topology, local.Options{
		Binaries: filepath.SplitList(os.Getenv(local.BinariesVariable)), Dir: filepath.Join(s.dir, "federation"),
		Log: logr.Discard(), APIServerArguments: []string{"--request-timeout=" + requestTimeout.String()},
		APIServerArgumentsOf: s.APIServerArguments,
	})
}

// Dir returns the folder of the suite. Main removes it at the end.
func (s *Suite) Dir() string { return s.dir }

// Program returns the path of the breakwater program that the suite built.
func (s *Suite) Program() string { return filepath.Join(s.dir, "breakwater") }

// install builds breakwater and runs it next to the federation.
func (s *Suite) install(ctx context.Context, _ *envconf.Config) (context.Context, error) {
	built := s.Program()
	if err := binaries.Build(ctx, built, binaries.Breakwater); err != nil {
		return ctx, err
	}
	f := s.Federation()
	if err := s.connect(f); err != nil {
		return ctx, err
	}
	if s.Prepare != nil {
		if err := s.Prepare(ctx, f); err != nil {
			return ctx, err
		}
	}
	if s.start != nil {
		var err error
		s.stop, err = s.start(ctx, s)
		return ctx, err
	}
	options := install.Options{
		Program: built, Dir: s.dir, Cores: f.Cores(), Workers: f.Workers(), AdmissionDeadline: AdmissionDeadline,
		AggregatorArguments: []string{"--lease-duration=" + leaseDuration.String()},
	}
	if s.configure != nil {
		s.configure(&options)
	}
	var err error
	if s.Breakwater, err = install.Start(ctx, options); err != nil {
		return ctx, err
	}
	return ctx, s.Breakwater.EnableWebhooks(ctx)
}

func (s *Suite) uninstall(ctx context.Context, _ *envconf.Config) (context.Context, error) {
	if s.Breakwater != nil {
		s.Breakwater.Stop()
	}
	if s.stop != nil {
		s.stop()
	}
	return ctx, nil
}
