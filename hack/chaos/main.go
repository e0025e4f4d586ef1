// Command chaos runs storms with real faults on a federation of real control planes, validates them against the contents of the
// clusters' etcds, and writes chaos-report: report.json, and a trace of each storm. It fails if a floor was broken, if
// an admission was illegal, or if Breakwater did not recover.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/e2e/harness/chaos"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

type options struct {
	seed    uint64
	seeds   uint64
	only    string
	list    bool
	outDir  string
	scale   int
	soak    time.Duration
	outage  time.Duration
	program string
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "random seed (`number`) of the first round, which alone has the scenarios core-outage")
	flag.Uint64Var(&o.seeds, "seeds", 3, "`number` of rounds, each with the next seed")
	flag.StringVar(&o.only, "only", "", "`pattern` of the names of the scenarios to run")
	flag.BoolVar(&o.list, "list", false, "list the scenarios")
	flag.StringVar(&o.outDir, "out", "chaos-report", "`directory` for report.json and the trace of each scenario")
	flag.IntVar(&o.scale, "scale", 1, "multiplies pods, floor, clients and the duration of a storm")
	flag.DurationVar(&o.soak, "soak", 0, "`duration` of the soak; 0 means 30m if -only selects nothing else, otherwise 2m")
	flag.DurationVar(&o.outage, "outage", 0, "`duration` of the outages in the scenarios core-outage; 0 means 5m for the rollout and at most 30s for the storms")
	flag.StringVar(&o.program, "program", "bin/breakwater", "`path` of breakwater")
	flag.Parse()
	ctrllog.SetLogger(logr.Discard()) // client libraries warn if no logger is set
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, o options) error {
	pattern, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	if o.scale < 1 || o.seeds < 1 {
		return fmt.Errorf("-scale %d -seeds %d: want at least 1 of each", o.scale, o.seeds)
	}
	var chosen []chaos.Scenario
	for _, scenario := range chaos.Scenarios() {
		if pattern.MatchString(scenario.Name) {
			chosen = append(chosen, scenario)
		}
	}
	soak := pattern.MatchString(chaos.SoakName)
	switch {
	case !soak:
		o.soak = 0
	case o.soak == 0 && len(chosen) == 0:
		o.soak = 30 * time.Minute
	case o.soak == 0:
		o.soak = 2 * time.Minute
	}
	if o.list {
		for _, scenario := range chosen {
			_, _ = fmt.Fprintln(out, scenario.Name)
		}
		if soak {
			_, _ = fmt.Fprintln(out, chaos.SoakName)
		}
		return nil
	}
	report, err := play(ctx, out, o, chosen)
	_, _ = fmt.Fprintln(out)
	return errors.Join(err, report.Table(out), report.Write(o.outDir), report.Err())
}

// player runs scenarios on one stage. After a scenario that could not be completed it opens a new one.
type player struct {
	options
	out    io.Writer
	folder string // of logs
	report *chaos.Report
	stage  *chaos.Stage
	shares bool // of the stage
	opened int
}

// play runs the scenarios of all seeds, and then the soak.
func play(ctx context.Context, out io.Writer, o options, scenarios []chaos.Scenario) (*chaos.Report, error) {
	p := &player{options: o, out: out, report: &chaos.Report{}}
	var err error
	if p.folder, err = os.MkdirTemp("", "breakwater-chaos-"); err != nil {
		return p.report, err
	}
	defer p.close(ctx)
	for i := range uint64(len(scenarios)) * o.seeds {
		scenario, seed := scenarios[i%uint64(len(scenarios))], o.seed+i/uint64(len(scenarios))
		if scenario.NeedsShares() && seed != o.seed {
			continue
		}
		if err := p.prepareStage(ctx, scenario.NeedsShares()); err != nil {
			return p.report, err
		}
		if err := p.run(ctx, scenario.Name, seed, func(plan chaos.Plan) (chaos.Result, error) { return p.stage.Play(ctx, scenario, plan) }); err != nil {
			return p.report, err
		}
	}
	if o.soak == 0 {
		return p.report, nil
	}
	if err := p.prepareStage(ctx, false); err != nil {
		return p.report, err
	}
	return p.report, p.run(ctx, chaos.SoakName, o.seed, func(plan chaos.Plan) (chaos.Result, error) {
		result, growth, err := p.stage.Soak(ctx, o.soak, plan)
		if growth != nil {
			p.report.SetGrowth(growth)
		}
		return result, err
	})
}

// prepareStage opens a stage, with shares or without, unless it is open.
func (p *player) prepareStage(ctx context.Context, shares bool) error {
	if p.stage != nil && p.shares != shares {
		if err := p.stage.Close(ctx); err != nil {
			return err
		}
		p.stage = nil
	}
	if p.stage != nil {
		return nil
	}
	p.opened++
	p.shares = shares
	var err error
	p.stage, err = open(ctx, p.options, filepath.Join(p.folder, fmt.Sprint(p.opened)), shares)
	return err
}

// run adds the result of one scenario to the report. Its error means that no other scenario can run.
func (p *player) run(ctx context.Context, name string, seed uint64, play func(chaos.Plan) (chaos.Result, error)) error {
	began := time.Now()
	result, err := play(chaos.Plan{Seed: seed, Scale: p.scale, Outage: p.outage, Traces: p.outDir})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	verdict := "ok"
	if err != nil {
		result.Error = err.Error()
		verdict = "failed; restarting the federation: " + result.Error
		if err := p.stage.Close(ctx); err != nil {
			return err
		}
		p.stage = nil
	}
	_, _ = fmt.Fprintf(p.out, "%s, seed %d, after %.0f s: %s\n", name, seed, time.Since(began).Seconds(), verdict)
	p.report.Add(result)
	return p.report.Write(p.outDir) // so that the user can read partial results
}

// close closes the stage, and keeps the logs of a run that failed.
func (p *player) close(ctx context.Context) {
	if p.stage != nil {
		_ = p.stage.Close(ctx) // the results remain valid
	}
	if p.report.Err() != nil {
		_, _ = fmt.Fprintln(p.out, "Logs are in", p.folder)
		return
	}
	os.RemoveAll(p.folder)
}

func open(ctx context.Context, o options, folder string, shares bool) (*chaos.Stage, error) {
	program, err := filepath.Abs(o.program)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	return chaos.OpenStage(ctx, chaos.StageOptions{
		Program: program, Binaries: filepath.SplitList(os.Getenv(local.BinariesVariable)), Dir: folder, Log: logr.Discard(), Shares: shares,
	})
}
