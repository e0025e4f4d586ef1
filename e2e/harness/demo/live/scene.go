// Package live shows a storm while it runs: drawn in place in a terminal, in plain lines everywhere else.
package live

import (
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// Scene is what is to be seen of a run at one time.
type Scene struct {
	Title   string
	Phase   string
	Pods    int
	Floor   int
	Cells   []string
	Elapsed time.Duration
	// Now is the newest number of available pods, History those before, oldest first.
	Now      storm.Point
	History  []storm.Point
	Progress []storm.Progress
}

// counts adds up the attacks.
func (s Scene) counts() storm.Counts {
	var all storm.Counts
	for _, p := range s.Progress {
		all = all.Plus(p.Counts)
	}
	return all
}
