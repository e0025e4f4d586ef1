package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
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
		Short: "Plan an order for draining nodes, in waves that fit all budgets, with the expected duration",
		Long: `Plans an order of nodes, and of their pods in waves. No protector denies a removal of a wave, and each wave begins when the replacements of the
previous wave are available. Pods that block the drain are listed first: pods without a controller, which are not recreated, and pods for which no
wave frees budget. Like kubectl drain, the plan leaves out pods of DaemonSets and mirror pods.

The time until a replacement is available is --replacements-ready-after, or else the median time from creation to Ready of pods of the same owner,
plus minReadySeconds. The plan assumes that replacements can be scheduled and that no other client removes pods.

The exit code is 0 if all nodes can be drained, and 2 if pods block the drain.`,
		Example: `  kubectl breakwater drain-plan node-1 node-2 --parallel`,
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(command *cobra.Command, nodes []string) error { return f.run(command.Context(), nodes) },
	}
	f.output.bind(command)
	flags := command.Flags()
	flags.BoolVar(&f.parallel, "parallel", false, "drain all nodes at once, not one after the other")
	flags.DurationVar(&f.after, "replacements-ready-after", 0, "`time` until a replacement is available (minReadySeconds is added); 0: as observed")
	p.bindCell(command, &f.cell)
	return command
}

func (f *drainPlanFlags) run(ctx context.Context, names []string) error {
	names, err := nodeResource.parseAll(names)
	if err := errors.Join(err, f.output.check()); err != nil {
		return err
	}
	at, err := f.openCell(ctx, f.cell)
	if err != nil {
		return err
	}
	plan := drainPlan{Cell: at.Cell}
	var nodes []drain.Node
	for _, name := range names {
		pods, left, err := podsToDrain(ctx, at, name)
		if err != nil {
			return err
		}
		all, notes, err := podsToRemove(ctx, at, pods, v1alpha1.OperationEvict, f.after)
		if err != nil {
			return err
		}
		nodes = append(nodes, drain.Node{Name: name, Pods: all})
		plan.LeftOut, plan.Notes = append(plan.LeftOut, left...), append(plan.Notes, notes...)
	}
	plan.Plan = drain.NewPlan(at.Cell, f.now(), nodes, f.parallel)
	coloured := f.coloured(f.Out)
	if err := write(&f.output, f.Out, plan, func(plan drainPlan) string { return planText(plan, f.wide(), coloured) }); err != nil {
		return err
	}
	if len(plan.Blocked) > 0 {
		return cli.ExitError{Code: 2, Err: fmt.Errorf("%s would block the drain", printable.Count(len(plan.Blocked), "pod"))}
	}
	return nil
}
