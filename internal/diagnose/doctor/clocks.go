package doctor

import (
	"fmt"
	"slices"
	"time"
)

// apart is the tolerated clock difference, in addition to the measurement error.
const apart = 5 * time.Second

// clocks compares the clocks of all API servers with each other and with the clock of this machine. It takes the median as correct,
// because several clocks are rarely wrong by the same amount.
func clocks(r *Reading) []Finding {
	type reading struct {
		where string
		Clock
	}
	all := []reading{{"here", Clock{}}}
	take := func(where string, clock Read[Clock]) {
		if clock.Err == nil { // the apiserver check reports an API server that does not answer
			all = append(all, reading{where, clock.Value})
		}
	}
	for i := range r.Cores {
		take(r.Cores[i].where(), r.Cores[i].Clock)
	}
	for i := range r.Cells {
		if r.Cells[i].Way == nil {
			take(r.Cells[i].where(), r.Cells[i].Clock)
		}
	}
	if len(all) == 1 {
		return nil
	}
	ordered := slices.Clone(all)
	slices.SortFunc(ordered, func(a, b reading) int { return int(a.Ahead - b.Ahead) })
	middle := ordered[len(ordered)/2].Ahead
	var found []Finding
	for _, one := range all {
		off := one.Ahead - middle
		if off.Abs() <= apart+one.Within {
			continue
		}
		direction := "ahead of"
		if off < 0 {
			direction = "behind"
		}
		found = append(found, finder{one.where, "clock"}.bad(Warning, fmt.Sprintf("Its clock is %s %s those of the others.", off.Abs().Round(time.Second), direction),
			"See to the time service of that machine.", "clock-skew"))
	}
	return finder{"all", "clock"}.or(found, "Those of %d clusters and of this machine agree, give or take %s.", len(all)-1, apart)
}
