package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/drain"
)

type drainPlanFlags struct {
	*plugin
	output
	cell     string
	after    time.Duration
	parallel bool
}

// drainPlan is the stable form of -o json and -o yaml.
type drainPlan struct {
	Cell string `json:"cell"`
	drain.Plan
	LeftOut []leftOut `json:"leftOut,omitempty"`
	Notes   []string  `json:"notes,omitempty"`
}

func drainPlanCommand(p *plugin) *cobra.Command {
	f := &drainPlanFlags{plugin: p}
	command := &cobra.Command{
		Use:   "drain-plan NODE... [--parallel]",
		Short: "Plan in which order nodes are drained, in waves that fit all budgets, and how long that takes",
		Long: `Tells an order of nodes, and of their pods in waves that no protector refuses, each when the replacements of the one before are available. Pods
that block come first: without a controller nobody makes them anew, and of some no wave makes room. Pods of DaemonSets and mirror pods are left
out, as by kubectl drain.

How long a replacement takes is what --replacements-ready-after says, or else how long pods of the same owner took from their creation until they
were Ready (the middle one), plus minReadySeconds. That there is room for replacements is taken for granted, as is that nobody else removes pods.

The exit code is 0 if all nodes can be drained, and 2 if pods block.`,
		Example: `  kubectl breakwater drain-plan node-1 node-2 --parallel`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, nodes []string) error {
			return f.run(command.Context(), nodes)
		},
	}
	f.output.bind(command)
	flags := command.Flags()
	flags.BoolVar(&f.parallel, "parallel", false, "drain all nodes at once, not one after the other")
	flags.DurationVar(&f.after, "replacements-ready-after", 0, "`time` after which a replacement is available (plus minReadySeconds); 0: as observed")
	p.bindCell(command, &f.cell)
	return command
}

func (f *drainPlanFlags) run(ctx context.Context, names []string) error {
	names, err := nodeKinds.allNamed(names)
	if err := errors.Join(err, f.output.check()); err != nil {
		return err
	}
	at, err := f.place(ctx, f.cell)
	if err != nil {
		return err
	}
	told := drainPlan{Cell: at.Cell}
	var nodes []drain.Node
	for _, name := range names {
		pods, left, err := podsOn(ctx, at, name)
		if err != nil {
			return err
		}
		all, notes, err := removed(ctx, at, pods, v1alpha1.OperationEvict, f.after)
		if err != nil {
			return err
		}
		nodes = append(nodes, drain.Node{Name: name, Pods: all})
		told.LeftOut, told.Notes = append(told.LeftOut, left...), append(told.Notes, notes...)
	}
	told.Plan = drain.PlanOf(at.Cell, f.now(), nodes, f.parallel)
	coloured := f.coloured(f.Out)
	if err := write(&f.output, f.Out, told, func(told drainPlan) string { return planned(told, f.wide(), coloured) }); err != nil {
		return err
	}
	if len(told.Blocked) > 0 {
		return exitError{2, fmt.Errorf("%s would block", count(len(told.Blocked), "pod"))}
	}
	return nil
}
