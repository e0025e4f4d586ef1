package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/e2e/harness/demo"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

const (
	// exitUnexpected is the exit code of a demonstration that completed but did not show the expected result.
	exitUnexpected = 2
	// exitInterrupted is the exit code that shells use for a program that Ctrl-C ended.
	exitInterrupted = 130
)

func demoCommand() *cobra.Command {
	var (
		options  demo.Options
		binaries string
	)
	command := &cobra.Command{
		Use:   "demo",
		Short: "Run a deletion storm twice, without and with Breakwater, and report the results",
		Long: `Starts a federation of real control planes on this machine (a core and two workers, whose nodes and containers kwok simulates), and
runs the same accident twice on an application with pods in both workers: clients that delete pods at random, an eviction wave,
deletecollection, and a cascading deletion of its Deployments. The first run is without protection, the second with Breakwater.

The result is read from the clusters' own watch streams, not from Breakwater. The exit code is 2 if the floor was broken with
Breakwater, or was not broken without it.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			program, err := componentProgram()
			if err != nil {
				return err
			}
			options.Program, options.Version = program, version.String()
			options.Binaries = filepath.SplitList(binaries)
			return runDemo(command.Context(), options)
		},
	}
	flags := command.Flags()
	flags.IntVar(&options.Pods, "pods", 60, "`number` of pods of the application in both workers")
	flags.IntVar(&options.Floor, "floor", 40, "`number` of pods that must stay available")
	flags.IntVar(&options.Clients, "clients", 64, "`number` of clients that delete at random")
	flags.Uint64Var(&options.Seed, "seed", 1, "`number` that seeds the random draws")
	flags.BoolVar(&options.Keep, "keep", false, "keep everything running after the report, until Ctrl-C")
	flags.StringVar(&options.ReportDir, "report-dir", "demo-report", "`folder` for report.json and timeline.svg")
	flags.StringVar(&binaries, "binaries", os.Getenv(local.BinariesVariable),
		"`folders` of the control planes' programs, separated as in PATH; the default is $"+local.BinariesVariable)
	return command
}

func runDemo(ctx context.Context, options demo.Options) error {
	err := demo.Run(ctx, options, os.Stdout)
	switch {
	case errors.Is(err, demo.ErrFloorBroken), errors.Is(err, demo.ErrStormTooWeak):
		return cli.ExitError{Code: exitUnexpected, Err: err}
	case err != nil && ctx.Err() != nil:
		return cli.ExitError{Code: exitInterrupted, Err: errors.New("interrupted")}
	}
	return err
}
