package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/drain"
)

type simulateFlags struct {
	*plugin
	output
	cell  string
	after time.Duration
}

// simulated is the result of a simulation. It is the stable form of -o json and -o yaml.
type simulated struct {
	What string `json:"what"`
	Cell string `json:"cell"`
	// Pods is the number of pods to remove. LeftOut are the pods that the operation does not remove.
	Pods    int       `json:"pods"`
	LeftOut []leftOut `json:"leftOut,omitempty"`
	Passes  bool      `json:"passes"`
	drain.Course
	Notes []string `json:"notes,omitempty"`
}

func simulateCommand(p *plugin) *cobra.Command {
	f := &simulateFlags{plugin: p}
	command := &cobra.Command{
		Use:   "simulate",
		Short: "Tell what would become of a drain, a deletion, a scaling or a rollout, without doing it",
		Long: `Tells whether it would pass, which pods would be refused first and by which protector, and where it would stick. Nothing is written and nothing is
asked of an apiserver but to read: it is reckoned from the counts that protectors have now, by the code that decides on each removal.

All pods are taken to be asked for at once, before anything is counted anew. Nothing is taken to come back, unless --replacements-ready-after
says how long a replacement takes to be available: then whoever was refused asks again, wave by wave. What others remove meanwhile, and pods that
fail, are not in it.

The exit code is 0 if all would pass, and 2 if something would stick.`,
		Args: cobra.NoArgs,
	}
	command.AddCommand(f.drainCommand(), f.deleteCommand(), f.scaleCommand(), f.rolloutCommand())
	return command
}

func (f *simulateFlags) bindTo(command *cobra.Command, returns bool) *cobra.Command {
	f.output.bind(command)
	f.bindCell(command, &f.cell)
	if returns {
		command.Flags().DurationVar(&f.after, "replacements-ready-after", 0, "`time` after which a replacement is available (plus minReadySeconds); 0: nothing comes back")
	}
	return command
}

func (f *simulateFlags) drainCommand() *cobra.Command {
	return f.bindTo(&cobra.Command{
		Use:     "drain NODE...",
		Short:   "As kubectl drain, of all these nodes at once",
		Example: `  kubectl breakwater simulate drain node-1 node-2 --replacements-ready-after 90s`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			nodes, err := nodeKinds.allNamed(arguments)
			if err != nil {
				return err
			}
			return f.run(command.Context(), "drain of "+strings.Join(nodes, ", "), func(ctx context.Context, at place) (s simulated, err error) {
				var pods []corev1.Pod
				for _, node := range nodes {
					some, left, err := podsOn(ctx, at, node)
					if err != nil {
						return s, err
					}
					pods, s.LeftOut = append(pods, some...), append(s.LeftOut, left...)
				}
				return s, f.play(ctx, at, pods, v1alpha1.OperationEvict, &s)
			})
		},
	}, true)
}

// run finds the cell, runs a simulation and writes the result.
func (f *simulateFlags) run(ctx context.Context, what string, simulate func(context.Context, place) (simulated, error)) error {
	if err := f.output.check(); err != nil {
		return err
	}
	at, err := f.place(ctx, f.cell)
	if err != nil {
		return err
	}
	s, err := simulate(ctx, at)
	if err != nil {
		return err
	}
	s.What, s.Cell, s.Passes = what, at.Cell, s.Course.Passes()
	if s.Waves == nil {
		s.Waves = []drain.Wave{}
	}
	coloured := f.coloured(f.Out)
	if err := write(&f.output, f.Out, s, func(s simulated) string { return simulation(s, f.wide(), coloured) }); err != nil {
		return err
	}
	if !s.Passes {
		return exitError{2, fmt.Errorf("%d of %d pods would stay", len(s.Stuck), s.Pods)}
	}
	return nil
}

// play simulates the removal of pods.
func (f *simulateFlags) play(ctx context.Context, at place, pods []corev1.Pod, operation v1alpha1.Operation, s *simulated) error {
	all, notes, err := removed(ctx, at, pods, operation, max(f.after, time.Nanosecond))
	if err != nil {
		return err
	}
	s.Pods, s.Notes = len(all), append(s.Notes, notes...)
	s.Course = drain.Play(drain.Open(at.Cell, f.now(), all), all, drain.Rule{Waits: f.after > 0})
	f.tellReturns(s)
	return nil
}

// tellReturns adds a note if the simulation stops only because it assumes that no replacements become available.
func (f *simulateFlags) tellReturns(s *simulated) {
	if f.after == 0 && !s.Course.Passes() {
		s.Notes = append(s.Notes, "nothing is taken to come back: with --replacements-ready-after TIME it goes on when replacements are available")
	}
}
