// Package drain contains the command drain-plan.
package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
	"github.com/breakwater-k8s/breakwater/internal/plugin/drain/waves"
)

type drainPlanFlags struct {
	*plugin.Plugin
	plugin.Output
	drain    drainFlags
	cell     string
	after    time.Duration
	parallel bool
}

// drainPlan is the stable form of -o json and -o yaml.
type drainPlan struct {
	Cell string `json:"cell"`
	waves.Plan
	// Aborts are the nodes of which kubectl drain would remove no pod. The waves do not include them.
	Aborts  []waves.Abort `json:"aborts,omitempty"`
	LeftOut []leftOut     `json:"leftOut,omitempty"`
	Notes   []string      `json:"notes,omitempty"`
}

// Command returns the command drain-plan.
func Command(p *plugin.Plugin) *cobra.Command {
	f := &drainPlanFlags{Plugin: p}
	command := &cobra.Command{
		Use:   "drain-plan NODE... [--parallel]",
		Short: "Plan an order for draining nodes, in waves that fit all budgets, with the expected duration",
		Long: `Plans an order of nodes, and of their pods in waves. No protector denies a removal of a wave, and each wave begins when the replacements of the
previous wave are available. Pods for which no wave frees budget block the drain, and are listed first.

Like kubectl drain, the command aborts on a node that has pods without a controller, with emptyDir volumes or of a DaemonSet, unless --force,
--delete-emptydir-data or --ignore-daemonsets allow it: no pod of that node is removed, and the plan does not include it. Mirror pods are left out.

The time until a replacement is available is --replacements-ready-after, or else the median time from creation to Ready of pods of the same owner,
plus minReadySeconds. The plan assumes that replacements can be scheduled and that no other client removes pods.

The exit code is 0 if all nodes can be drained, and 2 if pods block the drain or kubectl drain would abort.`,
		Example: `  kubectl breakwater drain-plan node-1 node-2 --ignore-daemonsets --delete-emptydir-data --parallel`,
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(command *cobra.Command, nodes []string) error { return f.run(command.Context(), nodes) },
	}
	f.Output.Bind(command)
	f.drain.bind(command)
	flags := command.Flags()
	flags.BoolVar(&f.parallel, "parallel", false, "drain all nodes at once, not one after the other")
	flags.DurationVar(&f.after, "replacements-ready-after", 0, "`time` until a replacement is available (minReadySeconds is added); 0: as observed")
	p.BindCell(command, &f.cell)
	return command
}

func (f *drainPlanFlags) run(ctx context.Context, names []string) error {
	names, err := cli.NodeResource.ParseAll(names)
	if err := errors.Join(err, f.Check()); err != nil {
		return err
	}
	at, err := f.OpenCell(ctx, f.cell)
	if err != nil {
		return err
	}
	plan := drainPlan{Cell: at.Cell}
	var nodes []waves.Node
	for _, name := range names {
		found, err := f.drain.podsOf(ctx, at, name)
		if err != nil {
			return err
		}
		plan.LeftOut, plan.Aborts = append(plan.LeftOut, found.leftOut...), append(plan.Aborts, found.aborts...)
		if len(found.aborts) > 0 {
			continue
		}
		all, notes, err := podsToRemove(ctx, at, found.pods, f.drain.operation(), f.after)
		if err != nil {
			return err
		}
		f.drain.delay(all)
		nodes, plan.Notes = append(nodes, waves.Node{Name: name, Pods: all}), append(plan.Notes, notes...)
	}
	plan.Plan = waves.NewPlan(at.Cell, f.Now(), nodes, f.parallel, waves.Strategy{Timeout: f.drain.timeout, AbortNode: f.drain.disableEviction})
	if err := plugin.Write(&f.Output, f.Out, plan, func(plan drainPlan) string { return planText(plan, f.Wide()) }); err != nil {
		return err
	}
	if len(plan.Aborts) > 0 {
		names := []string{}
		for i := range plan.Aborts {
			names = append(names, plan.Aborts[i].Node)
		}
		return cli.ExitError{Code: 2, Err: fmt.Errorf("kubectl drain would abort on %s", strings.Join(slices.Compact(names), ", "))}
	}
	if len(plan.Blocked) > 0 {
		return cli.ExitError{Code: 2, Err: fmt.Errorf("%s would block the drain", printable.Count(len(plan.Blocked), "pod"))}
	}
	return nil
}
