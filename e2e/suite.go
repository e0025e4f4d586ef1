package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

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

	topology   string
	configure  func(*install.Options)
	start      func(ctx context.Context, s *Suite) (stop func(), err error)
	stop       func()
	dir        string
	federation federation.Federation
}

// Core is a core cluster.
type Core struct {
	Name string
	client.Client
}

// NewSuite returns a suite on one of the built-in topologies. configure may be nil.
func NewSuite(topology string, configure func(*install.Options)) *Suite {
	return &Suite{topology: topology, configure: configure}
}

// NewSuiteOn returns a suite on a running federation. The caller installs and uninstalls Breakwater.
func NewSuiteOn(f federation.Federation) (*Suite, error) {
	s := &Suite{federation: f, dir: f.Dir()}
	return s, s.connect()
}

func (s *Suite) connect() error {
	for _, core := range s.federation.Cores() {
		c, err := install.Client(core)
		if err != nil {
			return err
		}
		s.Cores = append(s.Cores, Core{Name: core.Name(), Client: c})
	}
	for _, worker := range s.federation.Workers() {
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
func (s *Suite) Federation() federation.Federation { return s.federation }

// Main starts the federation, installs Breakwater, runs the tests of a package, and stops everything. Call it from TestMain, and exit with
// the code that it returns. If the flags of the test binary select no test of the package, it starts nothing.
func (s *Suite) Main(m *testing.M) int {
	log.SetLogger(logr.Discard()) // client libraries warn if no logger is set
	if !selectsTests(m) {
		return m.Run()
	}
	code, err := s.run(context.Background(), m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

func (s *Suite) run(ctx context.Context, m *testing.M) (code int, err error) {
	if s.dir, err = os.MkdirTemp("", "breakwater-e2e-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(s.dir)
	if s.federation, err = s.startFederation(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.federation.Stop(ctx)) }()
	defer s.uninstall()
	if err := s.install(ctx); err != nil {
		return 0, err
	}
	return m.Run(), nil
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
func (s *Suite) install(ctx context.Context) error {
	built, f := s.Program(), s.federation
	if err := binaries.Build(ctx, built, binaries.Breakwater); err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	if s.Prepare != nil {
		if err := s.Prepare(ctx, f); err != nil {
			return err
		}
	}
	if s.start != nil {
		var err error
		s.stop, err = s.start(ctx, s)
		return err
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
		return err
	}
	return s.Breakwater.EnableWebhooks(ctx)
}

func (s *Suite) uninstall() {
	if s.Breakwater != nil {
		s.Breakwater.Stop()
	}
	if s.stop != nil {
		s.stop()
	}
}
