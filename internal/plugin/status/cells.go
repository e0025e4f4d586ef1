package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

type cellsFlags struct {
	*plugin.Plugin
	plugin.Output
}

// CellsCommand returns the command cells.
func CellsCommand(p *plugin.Plugin) *cobra.Command {
	f := &cellsFlags{Plugin: p}
	command := &cobra.Command{
		Use:     "cells [CELL...]",
		Aliases: []string{"cell"},
		Short:   "Show the Cells: which aggregator counts them, since when, and whether the webhook protects them",
		Long: `Shows the Cells of the core clusters. STATE is the most severe problem of a cell:

  draining        the Cell is being deleted
  notGuarded      the cell's API server does not call the webhook for removals: its pods are not protected
  neverReported   no aggregator has ever counted the cell
  notCounted      the aggregator has stopped, and no other replica leads
  stale           the aggregator does not report: its counts are old, and no reservation of the cell is settled
  notConnected    the kubeconfig in the Cell's Secret does not work for its cluster
  overlapping     another Cell of the same cluster can include the same pods

HEARD is the time since the aggregator's last report, by the aggregator's clock. The reasons for problems are listed below the table.`,
		ValidArgsFunction: p.CompleteCells,
		RunE:              func(command *cobra.Command, names []string) error { return f.run(command.Context(), names) },
	}
	f.Output.Bind(command)
	return command
}

// cellList is the JSON form of Cells.
type cellList struct {
	Cells []status.Cell `json:"cells"`
}

func (f *cellsFlags) run(ctx context.Context, names []string) error {
	names, err := cli.CellResource.ParseAll(names)
	if err := errors.Join(err, f.Check()); err != nil {
		return err
	}
	cores, err := f.Clusters.Cores(ctx)
	if err != nil {
		return err
	}
	read, failed := plugin.FromEachCore(cores, func(c plugin.Core) ([]status.Cell, error) {
		cells, err := plugin.ReadAll[v1alpha1.Cell](ctx, c, &v1alpha1.CellList{})
		views := make([]status.Cell, 0, len(cells))
		for i := range cells {
			views = append(views, status.OfCell(c.Name, &cells[i], f.Now()))
		}
		return views, err
	})
	if len(read) == 0 {
		return failed
	}
	all := slices.Concat(read...)
	for _, name := range names {
		if !slices.ContainsFunc(all, func(c status.Cell) bool { return c.Name == name }) {
			return fmt.Errorf("no Cell %s exists: kubectl breakwater cells lists all Cells", name)
		}
	}
	all = slices.DeleteFunc(all, func(c status.Cell) bool { return len(names) > 0 && !slices.Contains(names, c.Name) })
	slices.SortFunc(all, func(a, b status.Cell) int { return cmp.Or(cmp.Compare(a.Core, b.Core), cmp.Compare(a.Name, b.Name)) })
	return cmp.Or(f.writeCells(all, len(cores) > 1), plugin.IncompleteError(len(read), failed))
}

func (f *cellsFlags) writeCells(all []status.Cell, several bool) error {
	if len(all) == 0 && f.IsTable() {
		_, err := fmt.Fprintln(f.ErrOut, "No Cells: no pods are counted, and the webhook denies every removal. Create a Cell for each cluster with pods to "+
			"protect; see docs/concepts/topology.md.")
		return err
	}
	o := plugin.TableOptions{Cores: several, Wide: f.Wide(), Now: f.Now()}
	return plugin.Write(&f.Output, f.Out, cellList{all}, func(l cellList) string {
		return cellTable(l.Cells, o).Text() + cellProblems(l.Cells, plugin.WidthOf(f.Out))
	})
}

func cellTable(all []status.Cell, o plugin.TableOptions) *plugin.Table {
	t := plugin.NewTable(o.Row("", "CORE", []string{"NAME", "STATE", "CONNECTED", "GUARDED", "HEARD", "EPOCH", "PODS", "PROTECTORS"},
		"HOLDER", "SHARDS", "SETTLEMENT", "DEADLINE", "STALE AFTER", "WHEN STALE", "HAS", "AGE")...)
	t.AlignRight("EPOCH", "PODS", "PROTECTORS", "SHARDS")
	for i := range all {
		c := &all[i]
		heard, as := "never", plugin.Good
		if c.Heard != nil {
			heard = plugin.Ago(o.Now, *c.Heard)
		}
		if c.State != status.CellOK {
			as = plugin.Bad
		}
		cells := []string{
			c.Name, as.Of(c.State), conditionText(c.Connected), conditionText(c.Guarded), heard, strconv.FormatInt(c.Epoch, 10), strconv.Itoa(c.Pods),
			strconv.Itoa(c.Protectors),
		}
		t.Add(o.Row("", c.Core, cells, cmp.Or(c.Holder, "-"), strconv.Itoa(c.Shards), c.Settlement, fmt.Sprintf("%ds", c.Deadline),
			fmt.Sprintf("%ds", c.StaleAfter), c.WhenStale, c.Scope, plugin.Age(o.Now, c.Created))...)
	}
	return t
}

func conditionText(status string) string {
	switch status {
	case "True":
		return "yes"
	case "False":
		return plugin.Bad.Of("NO")
	default:
		return plugin.Soft.Of("?")
	}
}

// cellProblems describes the problems of cells and their remedies.
func cellProblems(all []status.Cell, width int) string {
	text := ""
	for i := range all {
		c := &all[i]
		problems := &plugin.Tree{}
		for j := range c.Alarms {
			a := &c.Alarms[j]
			problems.Add(plugin.Bad.Of(a.Kind.Text()), a.Consequence+alarmCause(c, a.Kind)+" "+plugin.RunbookHint(a.Runbook))
		}
		for _, condition := range c.Conditions {
			if !condition.Good {
				problems.Add(plugin.Bad.Of(condition.Type), condition.Status+" "+condition.Reason+": "+condition.Message)
			}
		}
		if len(problems.Children) > 0 {
			text += "\n" + plugin.Strong.Of(c.Name) + "\n" + problems.Lines(width)
		}
	}
	return text
}

// alarmCause says what a cell's alarm comes from and what to do, as far as no condition does.
func alarmCause(c *status.Cell, kind status.AlarmKind) string {
	switch {
	case kind == status.AlarmNeverReported:
		return " Start an aggregator (breakwater aggregator) and check its log."
	case kind == status.AlarmStale && c.Stale:
		aggregator := "Its aggregator"
		if c.Holder != "" {
			aggregator += " " + c.Holder
		}
		return fmt.Sprintf(" %s has not reported for more than %ds: check that it runs and reaches both clusters.", aggregator, c.StaleAfter)
	default:
		return ""
	}
}
