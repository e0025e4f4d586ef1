package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/breakwater-k8s/breakwater/e2e/harness/demo/report"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// The errors of a demo that ran to its end.
var (
	// ErrFloorBroken means that Breakwater did not keep its promise.
	ErrFloorBroken = errors.New("the floor was broken")
	// ErrStormTooWeak means that the storm was too weak to break the floor without Breakwater.
	ErrStormTooWeak = errors.New("the storm was too weak to prove anything")
)

const (
	topologyName = "federated"
	application  = "web"
	// stepTimeout is the timeout of each step that should take seconds.
	stepTimeout = time.Minute
	stopTimeout = 20 * time.Second
)

// demo is one demonstration.
type demo struct {
	options Options
	out     io.Writer
	log     logr.Logger
	// printing serializes the lines of output.
	printing sync.Mutex
	// dir holds logs and kubeconfigs.
	dir        string
	federation *local.Federation
	breakwater *install.Installation
	core       federation.Cluster
	cells      []storm.Cell
	report     report.Report
	// fail aborts the demonstration from another goroutine.
	fail context.CancelCauseFunc
}

// Run runs the demonstration and writes its report. The error is ErrFloorBroken or ErrStormTooWeak if it ran to its end and did
// not show what it should.
func Run(ctx context.Context, options Options, out io.Writer) (err error) {
	if err := options.Validate(); err != nil {
		return err
	}
	topology, err := federation.Embedded(topologyName)
	if err != nil {
		return err
	}
	d := &demo{options: options, out: out}
	if d.dir, err = os.MkdirTemp("", "breakwater-demo-"); err != nil {
		return fmt.Errorf("create a directory for logs: %w", err)
	}
	logFile, err := d.openLog()
	if err != nil {
		return err
	}
	defer logFile.Close()
	ctx, d.fail = context.WithCancelCause(ctx)
	defer d.fail(nil)
	defer func() { err = errors.Join(err, d.stop(ctx, err)) }()

	if err := d.startFederation(ctx, topology); err != nil {
		return err
	}
	go func() {
		select {
		case death := <-d.federation.Deaths():
			d.fail(death)
		case <-ctx.Done():
		}
	}()
	if err := d.runBoth(ctx); err != nil {
		return cmp.Or(componentDeath(ctx), err)
	}
	if err := d.finish(); err != nil {
		return err
	}
	if options.Keep {
		if err := d.waitForInterrupt(ctx); err != nil {
			return err
		}
	}
	return d.verdict()
}

// componentDeath returns the death of a component, if there was one. It explains a failure better than the errors that followed from it.
func componentDeath(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// runBoth runs the storm without and with Breakwater.
func (d *demo) runBoth(ctx context.Context) error {
	var err error
	d.report.Unprotected, err = d.unprotected(ctx)
	if err != nil {
		return fmt.Errorf("the storm without Breakwater: %w", err)
	}
	d.report.Protected, err = d.protected(ctx)
	if err != nil {
		return fmt.Errorf("the storm with Breakwater: %w", err)
	}
	return nil
}

func (d *demo) startFederation(ctx context.Context, topology *federation.Topology) error {
	began := time.Now()
	d.printf("Starting the federation: a core and two worker clusters, real control planes on this machine.")
	f, err := local.Start(ctx, topology, local.Options{
		Binaries: d.options.Binaries, Dir: d.federationDir(), Log: d.log,
	})
	if err != nil {
		return err
	}
	d.federation = f
	d.core = f.Cores()[0]
	for _, worker := range f.Workers() {
		cell, err := storm.NewCell(worker.Name(), worker.RESTConfig())
		if err != nil {
			return err
		}
		d.cells = append(d.cells, cell)
	}
	version, err := d.cells[0].Client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("read the version of cluster %s: %w", d.cells[0].Name, err)
	}
	d.report = report.Report{
		Floor: d.options.Floor, Pods: d.options.Pods, Clients: d.options.Clients, Seed: d.options.Seed,
		Started: began,
		Versions: report.Versions{
			Breakwater: d.options.Version, Kubernetes: version.GitVersion, Platform: runtime.GOOS + "/" + runtime.GOARCH,
		},
	}
	for _, cell := range d.cells {
		d.report.Cells = append(d.report.Cells, cell.Name)
	}
	d.printf("Federation usable after %.1f s.", time.Since(began).Seconds())
	return nil
}

// stop ends everything that runs. Logs stay if they may explain an error.
func (d *demo) stop(ctx context.Context, outcome error) error {
	if d.breakwater != nil {
		d.breakwater.Stop()
	}
	var err error
	if d.federation != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = d.federation.Stop(ctx)
	}
	interrupted := errors.Is(outcome, context.Canceled)
	_, missing := os.Stat(d.federationDir())
	if missing == nil && ((outcome != nil && !interrupted) || err != nil) {
		d.printf("Logs are in %s.", d.dir)
		return err
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}

func (d *demo) federationDir() string { return filepath.Join(d.dir, "federation") }

func (d *demo) verdict() error {
	switch {
	case !d.report.Proves():
		return ErrStormTooWeak
	case !d.report.Held():
		return ErrFloorBroken
	}
	return nil
}
