package status

import (
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

// alarmsOf returns the alarms of all cells of core clusters, the worst first. Cells that the user may not read have none.
func alarmsOf(states []plugin.CoreState, now time.Time) (alarms []status.Alarm) {
	for i := range states {
		for j := range states[i].Cells {
			alarms = append(alarms, status.OfCell(states[i].Core.Name, &states[i].Cells[j], now).Alarms...)
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
	root := &plugin.Tree{}
	for i := range alarms {
		a := &alarms[i]
		root.Add(plugin.Bad.Of(a.Kind.Text()), a.Consequence+" "+plugin.RunbookHint(a.Runbook))
	}
	return "\n" + root.Lines(width)
}
