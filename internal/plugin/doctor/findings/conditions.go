package findings

import (
	"cmp"
	"fmt"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// checkCells judges the Cells of a core: whether an aggregator counts them, and their conditions.
func checkCells(core *Core, now time.Time) []Finding {
	f := reporter{core.where(), "cells"}
	if err := core.Cells.Err; err != nil {
		return f.unreadable("Cells", err, "Ask for permission to list cells, or use --as.")
	}
	if len(core.Cells.Value) == 0 {
		return []Finding{f.finding(Problem, "There are no Cells, so no aggregator counts pods and the webhook denies every removal that it reviews.",
			"Add a cluster with breakwater join, or list one in the chart's values.", "")}
	}
	var found []Finding
	for i := range core.Cells.Value {
		found = append(found, checkCell(f, core.Name, &core.Cells.Value[i], now)...)
	}
	return f.orOK(found, "All %d are counted, connected and guarded.", len(core.Cells.Value))
}

func checkCell(f reporter, core string, c *v1alpha1.Cell, now time.Time) []Finding {
	name := "Cell " + c.Name
	state := status.OfCell(core, c, now)
	switch {
	case state.Draining:
		return []Finding{f.finding(Warning, name+" is being deleted and is not drained yet.",
			"See docs/concepts/topology.md if that takes longer than a few minutes.", "")}
	case state.State == status.CellNeverReported:
		return []Finding{f.finding(Problem, name+" was never counted.", "Start an aggregator for it, and read its log.", "cell-silent")}
	case state.Stale:
		return []Finding{f.finding(Problem, fmt.Sprintf("%s is silent: its aggregator (last holder: %s) has not reported for more than %ds.", name, cmp.Or(state.Holder, "none"), state.StaleAfter),
			"Check that the aggregator runs and can reach both clusters.", "cell-silent")}
	}
	problem := status.CellProblem(c)
	if problem == "" {
		return nil
	}
	runbook := "cell-silent"
	if len(state.Alarms) > 0 {
		runbook = state.Alarms[0].Runbook
	}
	return []Finding{f.finding(Problem, name+": "+problem, "For details: kubectl breakwater cells "+c.Name, runbook)}
}
