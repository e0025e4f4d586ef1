package findings

import (
	"fmt"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// clockTolerance is the tolerated clock difference, in addition to the measurement error.
const clockTolerance = 5 * time.Second

// checkClocks compares the clocks of all API servers with each other and with the clock of this machine. It takes the median as correct,
// because several clocks are rarely wrong by the same amount.
func checkClocks(r *Inspection) []Finding {
	type reading struct {
		where string
		Clock
	}
	all := []reading{{"here", Clock{}}}
	add := func(where string, clock Result[Clock]) {
		if clock.Err == nil { // the apiserver check reports an API server that does not answer
			all = append(all, reading{where, clock.Value})
		}
	}
	for i := range r.Cores {
		add(r.Cores[i].where(), r.Cores[i].Clock)
	}
	for i := range r.Cells {
		if r.Cells[i].ConnectErr == nil {
			add(r.Cells[i].where(), r.Cells[i].Clock)
		}
	}
	if len(all) == 1 {
		return nil
	}
	ordered := slices.Clone(all)
	slices.SortFunc(ordered, func(a, b reading) int { return int(a.Ahead - b.Ahead) })
	median := ordered[len(ordered)/2].Ahead
	var found []Finding
	for _, one := range all {
		offset := one.Ahead - median
		if offset.Abs() <= clockTolerance+one.Uncertainty {
			continue
		}
		direction := "ahead of"
		if offset < 0 {
			direction = "behind"
		}
		found = append(found, reporter{one.where, "clock"}.finding(Warning, fmt.Sprintf("Its clock is %s %s the other clocks.", offset.Abs().Round(time.Second), direction),
			"Fix the time synchronization (NTP) of that machine.", "clock-skew"))
	}
	return reporter{"all", "clock"}.orOK(found, "The clocks of %s and of this machine agree within %s.", printable.Count(len(all)-1, "cluster"), clockTolerance)
}
