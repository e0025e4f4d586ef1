// Package live shows a running storm: drawn in place in a terminal, otherwise in plain lines.
package live

import (
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// Scene is the state of a run to display.
type Scene struct {
	Title   string
	Phase   string
	Pods    int
	Floor   int
	Cells   []string
	Elapsed time.Duration
	// Now is the latest number of available pods, History the earlier ones, oldest first.
	Now      storm.Point
	History  []storm.Point
	Progress []storm.Progress
}

// counts returns the sum of the counts of all attacks.
func (s Scene) counts() storm.Counts {
	var all storm.Counts
	for _, p := range s.Progress {
		all = all.Plus(p.Counts)
	}
	return all
}
