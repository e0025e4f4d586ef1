// Command chaos runs storms with real faults on a federation of real control planes, validates them against the contents of the
// clusters' etcds, and writes chaos-report: index.html to read, report.json for programs. It fails if a floor was broken, if
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
	out     string
	scale   int
	program string
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "random seed (`number`) of the first round")
	flag.Uint64Var(&o.seeds, "seeds", 3, "`number` of rounds, each with the next seed")
	flag.StringVar(&o.only, "only", "", "`pattern` of the names of the scenarios to run")
	flag.BoolVar(&o.list, "list", false, "list the scenarios")
	flag.StringVar(&o.out, "out", "chaos-report", "`directory` for index.html, report.json and the trace of each scenario")
	flag.IntVar(&o.scale, "scale", 1, "multiplies pods, floor, clients and the duration of a storm")
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
	if o.list {
		for _, scenario := range chosen {
			_, _ = fmt.Fprintln(out, scenario.Name)
		}
		return nil
	}
	report, err := play(ctx, out, o, chosen)
	_, _ = fmt.Fprintln(out)
	return errors.Join(err, report.Table(out), report.Write(o.out), report.Err())
}

// play runs the scenarios on one stage. After a scenario that could not be completed it opens a new one.
func play(ctx context.Context, out io.Writer, o options, scenarios []chaos.Scenario) (*chaos.Report, error) {
	report := &chaos.Report{}
	folder, err := os.MkdirTemp("", "breakwater-chaos-")
	if err != nil {
		return report, err
	}
	var stage *chaos.Stage
	defer func() {
		if stage != nil {
			_ = stage.Close(ctx) // the results remain valid
		}
		if report.Err() != nil {
			_, _ = fmt.Fprintln(out, "Logs are in", folder)
			return
		}
		os.RemoveAll(folder)
	}()
	for i := range uint64(len(scenarios)) * o.seeds {
		scenario, seed := scenarios[i%uint64(len(scenarios))], o.seed+i/uint64(len(scenarios))
		if stage == nil {
			if stage, err = open(ctx, o, filepath.Join(folder, fmt.Sprint(i))); err != nil {
				return report, err
			}
		}
		began := time.Now()
		result, err := stage.Play(ctx, scenario, chaos.Plan{Seed: seed, Scale: o.scale, Traces: o.out})
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		verdict := "ok"
		if err != nil {
			result.Error = err.Error()
			verdict = "failed; restarting the federation: " + result.Error
			if err := stage.Close(ctx); err != nil {
				return report, err
			}
			stage = nil
		}
		_, _ = fmt.Fprintf(out, "%s, seed %d, after %.0f s: %s\n", scenario.Name, seed, time.Since(began).Seconds(), verdict)
		report.Scenarios = append(report.Scenarios, result)
		if err := report.Write(o.out); err != nil { // so that the user can read partial results
			return report, err
		}
	}
	return report, nil
}

func open(ctx context.Context, o options, folder string) (*chaos.Stage, error) {
	program, err := filepath.Abs(o.program)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	return chaos.OpenStage(ctx, chaos.StageOptions{
		Program: program, Binaries: filepath.SplitList(os.Getenv(local.BinariesVariable)), Dir: folder, Log: logr.Discard(),
	})
}
