package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/drain"
)

type simulateFlags struct {
	*plugin
	output
	cell  string
	after time.Duration
}

// simulationResult is the result of a simulation. It is the stable form of -o json and -o yaml.
type simulationResult struct {
	What string `json:"what"`
	Cell string `json:"cell"`
	// Pods is the number of pods to remove. LeftOut are the pods that the operation does not remove.
	Pods    int       `json:"pods"`
	LeftOut []leftOut `json:"leftOut,omitempty"`
	// Aborts are the nodes of which kubectl drain would remove no pod.
	Aborts []drain.Abort `json:"aborts,omitempty"`
	Passes bool          `json:"passes"`
	drain.Outcome
	Notes []string `json:"notes,omitempty"`
}

func simulateCommand(p *plugin) *cobra.Command {
	f := &simulateFlags{plugin: p}
	command := &cobra.Command{
		Use:   "simulate",
		Short: "Predict the result of a drain, a deletion, a scaling or a rollout, without changes",
		Long: `Predicts whether the operation would complete, which removals would be denied first and by which protector, and where the operation would block.
The simulation only reads from API servers. It computes with the current counts of the protectors, and with the code that decides on each removal.

The simulation requests all removals at the same time, before any new count. It assumes that no pod is replaced, unless --replacements-ready-after
sets the time until a replacement is available: then denied removals are retried in waves. It does not include removals by other clients, or pods
that fail.

The exit code is 0 if all removals would be allowed, and 2 if some would be denied.`,
		Args: cobra.NoArgs,
	}
	command.AddCommand(f.drainCommand(), f.deleteCommand(), f.scaleCommand(), f.rolloutCommand())
	return command
}

func (f *simulateFlags) bindTo(command *cobra.Command, withReplacements bool) *cobra.Command {
	f.output.bind(command)
	f.bindCell(command, &f.cell)
	if withReplacements {
		command.Flags().DurationVar(&f.after, "replacements-ready-after", 0, "`time` until a replacement is available (minReadySeconds is added); 0: no replacements")
	}
	return command
}

func (f *simulateFlags) drainCommand() *cobra.Command {
	d := &drainFlags{}
	command := f.bindTo(&cobra.Command{
		Use:   "drain NODE...",
		Short: "Like kubectl drain, for all these nodes at once",
		Long: `Predicts the result of kubectl drain, with its flags, for all these nodes at once.

Like kubectl drain, the command aborts on a node that has pods without a controller, with emptyDir volumes or of a DaemonSet, unless --force,
--delete-emptydir-data or --ignore-daemonsets allow it: no pod of that node is removed. The exit code is then 2.`,
		Example: `  kubectl breakwater simulate drain node-1 node-2 --ignore-daemonsets --replacements-ready-after 90s`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			nodes, err := nodeResource.parseAll(arguments)
			if err != nil {
				return err
			}
			return f.run(command.Context(), "drain of "+strings.Join(nodes, ", "), func(ctx context.Context, at cellAccess) (s simulationResult, err error) {
				var pods []corev1.Pod
				for _, node := range nodes {
					found, err := d.podsOf(ctx, at, node)
					if err != nil {
						return s, err
					}
					pods, s.LeftOut, s.Aborts = append(pods, found.pods...), append(s.LeftOut, found.leftOut...), append(s.Aborts, found.aborts...)
				}
				return s, f.simulateDrain(ctx, at, pods, d, &s)
			})
		},
	}, true)
	d.bind(command)
	return command
}

// run finds the cell, runs a simulation and writes the result.
func (f *simulateFlags) run(ctx context.Context, what string, simulate func(context.Context, cellAccess) (simulationResult, error)) error {
	if err := f.check(); err != nil {
		return err
	}
	at, err := f.openCell(ctx, f.cell)
	if err != nil {
		return err
	}
	s, err := simulate(ctx, at)
	if err != nil {
		return err
	}
	s.What, s.Cell, s.Passes = what, at.Cell, s.RemovesAll() && len(s.Aborts) == 0
	if s.Waves == nil {
		s.Waves = []drain.Wave{}
	}
	coloured := f.coloured(f.Out)
	if err := write(&f.output, f.Out, s, func(s simulationResult) string { return simulationText(s, f.wide(), coloured) }); err != nil {
		return err
	}
	if len(s.Aborts) > 0 {
		return cli.ExitError{Code: 2, Err: fmt.Errorf("kubectl drain would abort on %s", abortedNodes(s.Aborts))}
	}
	if !s.Passes {
		return cli.ExitError{Code: 2, Err: fmt.Errorf("%d of %d pods would stay", len(s.Stuck), s.Pods)}
	}
	return nil
}

func (f *simulateFlags) simulateRemovals(ctx context.Context, at cellAccess, pods []corev1.Pod, operation v1alpha1.Operation, s *simulationResult) error {
	all, err := f.requests(ctx, at, pods, operation, s)
	if err != nil {
		return err
	}
	f.simulatePods(at, all, drain.Strategy{}, s)
	return nil
}

func (f *simulateFlags) simulateDrain(ctx context.Context, at cellAccess, pods []corev1.Pod, d *drainFlags, s *simulationResult) error {
	all, err := f.requests(ctx, at, pods, d.operation(), s)
	if err != nil {
		return err
	}
	d.delay(all)
	f.simulatePods(at, all, d.strategy(), s)
	return nil
}

func (f *simulateFlags) requests(ctx context.Context, at cellAccess, pods []corev1.Pod, operation v1alpha1.Operation, s *simulationResult) ([]drain.Pod, error) {
	all, notes, err := podsToRemove(ctx, at, pods, operation, max(f.after, time.Nanosecond))
	s.Pods, s.Notes = len(all), append(s.Notes, notes...)
	return all, err
}

func (f *simulateFlags) simulatePods(at cellAccess, all []drain.Pod, rule drain.Strategy, s *simulationResult) {
	rule.WaitForReplacements = f.after > 0
	s.Outcome = drain.Simulate(drain.NewSimulation(at.Cell, f.now(), all), all, rule)
	f.noteReplacements(s)
}

// noteReplacements adds a note if the simulation stops only because it assumes that no replacements become available.
func (f *simulateFlags) noteReplacements(s *simulationResult) {
	if f.after == 0 && !s.RemovesAll() {
		s.Notes = append(s.Notes, "the simulation assumes that no pod is replaced: with --replacements-ready-after TIME it continues when replacements are available")
	}
}
