package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

type cellsFlags struct {
	*plugin
	output
}

func cellsCommand(p *plugin) *cobra.Command {
	f := &cellsFlags{plugin: p}
	command := &cobra.Command{
		Use:     "cells [CELL...]",
		Aliases: []string{"cell"},
		Short:   "Show the Cells: who counts them, since when, and whether they are guarded",
		Long: `Shows the Cells of the core clusters. STATE is the worst that is known of a cell:

  draining        the Cell is being deleted
  notGuarded      its cluster does not ask the webhook about removals of its pods: they are not protected there
  neverReported   no aggregator has ever counted it
  notCounted      its aggregator has stopped, and no other one leads
  stale           its aggregator is silent: its counts are old, and nothing that is reserved there is settled
  notConnected    the kubeconfig of its Secret does not lead to its cluster
  overlapping     another Cell of the cluster can have the same pods

HEARD is how long ago the aggregator reported, by its own clock. Of what is wrong the reasons stand below the table.`,
		ValidArgsFunction: p.completeCells,
		RunE: func(command *cobra.Command, names []string) error {
			return f.run(command.Context(), names)
		},
	}
	f.output.bind(command)
	return command
}

// cellList is the JSON form of Cells.
type cellList struct {
	Cells []status.Cell `json:"cells"`
}

func (f *cellsFlags) run(ctx context.Context, names []string) error {
	names, err := cellKinds.allNamed(names)
	if err := errors.Join(err, f.output.check()); err != nil {
		return err
	}
	cores, err := f.clusters.Cores(ctx)
	if err != nil {
		return err
	}
	read, failed := fromEach(cores, func(c core) ([]status.Cell, error) {
		cells, err := readCells(ctx, c)
		return viewsOfCells(c.Name, cells, f), err
	})
	if len(read) == 0 {
		return failed
	}
	all := slices.Concat(read...)
	for _, name := range names {
		if !slices.ContainsFunc(all, func(c status.Cell) bool { return c.Name == name }) {
			return fmt.Errorf("there is no Cell %s: kubectl breakwater cells shows all", name)
		}
	}
	all = slices.DeleteFunc(all, func(c status.Cell) bool { return len(names) > 0 && !slices.Contains(names, c.Name) })
	slices.SortFunc(all, func(a, b status.Cell) int { return cmp.Or(cmp.Compare(a.Core, b.Core), cmp.Compare(a.Name, b.Name)) })
	return cmp.Or(f.writeCells(all, len(cores) > 1), without(len(read), failed))
}

func viewsOfCells(core string, cells []v1alpha1.Cell, f *cellsFlags) (all []status.Cell) {
	for i := range cells {
		all = append(all, status.OfCell(core, &cells[i], f.now()))
	}
	return all
}

func (f *cellsFlags) writeCells(all []status.Cell, several bool) error {
	if len(all) == 0 && (f.format == "table" || f.format == "wide") {
		_, err := fmt.Fprintln(f.ErrOut, "No Cells: nothing is counted and no removal is admitted where the webhook is asked. Make one for each cluster whose pods are to be protected; see docs/topology.md.")
		return err
	}
	o := tableOptions{cores: several, wide: f.wide(), now: f.now()}
	return write(&f.output, f.Out, cellList{all}, func(l cellList) string {
		return cellTable(l.Cells, o).text(f.coloured(f.Out)) + cellReasons(l.Cells, widthOf(f.Out), f.coloured(f.Out))
	})
}

func cellTable(all []status.Cell, o tableOptions) *table {
	t := newTable(o.headings("NAME", "STATE", "CONNECTED", "GUARDED", "HEARD", "EPOCH", "PODS", "PROTECTORS")...)
	if o.wide {
		t = newTable(o.headings("NAME", "STATE", "CONNECTED", "GUARDED", "HEARD", "EPOCH", "PODS", "PROTECTORS", "HOLDER", "SHARDS", "SETTLEMENT", "DEADLINE", "STALE AFTER", "WHEN STALE", "HAS", "AGE")...)
	}
	t.alignRight("EPOCH", "PODS", "PROTECTORS", "SHARDS")
	for i := range all {
		c := &all[i]
		heard, as := "never", good
		if c.Heard != nil {
			heard = ago(o.now, *c.Heard)
		}
		if c.State != status.CellOK {
			as = bad
		}
		row := append(o.leading("", c.Core), cell{c.Name, plain}, cell{c.State, as}, statusCell(c.Connected), statusCell(c.Guarded), cell{heard, plain},
			cell{strconv.FormatInt(c.Epoch, 10), plain}, cell{strconv.Itoa(c.Pods), plain}, cell{strconv.Itoa(c.Protectors), plain})
		if o.wide {
			row = append(row, cell{cmp.Or(c.Holder, "-"), plain}, cell{strconv.Itoa(c.Shards), plain}, cell{c.Settlement, plain}, cell{fmt.Sprintf("%ds", c.Deadline), plain},
				cell{fmt.Sprintf("%ds", c.StaleAfter), plain}, cell{c.WhenStale, plain}, cell{c.Scope, plain}, cell{age(o.now, c.Created), plain})
		}
		t.add(row...)
	}
	return t
}

// statusCell formats the status of a condition.
func statusCell(status string) cell {
	switch status {
	case "True":
		return cell{"yes", plain}
	case "False":
		return cell{"NO", bad}
	default:
		return cell{"?", soft}
	}
}

// cellReasons describes the problems of cells and their remedies.
func cellReasons(all []status.Cell, width int, coloured bool) string {
	text := ""
	for i := range all {
		c := &all[i]
		wrong := &node{}
		if c.Stale && c.State != status.CellNeverReported {
			wrong.add(cell{"stale", bad}, staleCell(c))
		}
		if c.State == status.CellNeverReported {
			wrong.add(cell{"never reported", bad}, "No aggregator has counted it: start one (breakwater aggregator), and look at its log. Until then every removal of pods that are protected is refused there.")
		}
		for _, condition := range c.Conditions {
			if !condition.Good {
				wrong.add(cell{condition.Type, bad}, condition.Status+" "+condition.Reason+": "+condition.Message)
			}
		}
		if len(wrong.kids) > 0 {
			text += "\n" + strong.on(c.Name, coloured) + "\n" + wrong.lines(width, coloured)
		}
	}
	return text
}

func staleCell(c *status.Cell) string {
	counts := "its pods count as they were counted last"
	if c.WhenStale == "Discount" {
		counts = "its pods count for nothing in other cells"
	}
	who := "its aggregator"
	if c.Holder != "" {
		who += " " + c.Holder
	}
	return fmt.Sprintf("Nothing was heard of %s for more than %ds: %s, and what is reserved there stays reserved. Look whether it runs and reaches both clusters.", who, c.StaleAfter, counts)
}
