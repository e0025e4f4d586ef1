package main

import (
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// alarmsOf returns the alarms of all cells of core clusters, the worst first. Cells that the user may not read have none.
func alarmsOf(states []coreState, now time.Time) (alarms []status.Alarm) {
	for i := range states {
		for j := range states[i].cells {
			alarms = append(alarms, status.OfCell(states[i].core.Name, &states[i].cells[j], now).Alarms...)
		}
	}
	slices.SortFunc(alarms, status.CompareAlarms)
	return alarms
}

// alarmText describes alarms, one paragraph each.
func alarmText(alarms []status.Alarm, width int) string {
	if len(alarms) == 0 {
		return ""
	}
	root := &node{}
	for i := range alarms {
		a := &alarms[i]
		root.add(bad.of(a.Kind.Text()), a.Consequence+" "+runbookHint(a.Runbook))
	}
	return "\n" + root.lines(width)
}

// runbookHint refers to a runbook by its name.
func runbookHint(name string) string { return "-> docs/runbooks/" + name + ".md" }
