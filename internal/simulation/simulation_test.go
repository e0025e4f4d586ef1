package simulation_test

import (
	"flag"
	"testing"
	"testing/synctest"

	"github.com/breakwater-k8s/breakwater/internal/simulation"
)

var (
	seeds = flag.Int("seeds", 20, "how many `seeds` to play")
	from  = flag.Uint64("from", 1, "the first `seed`")
	show  = flag.Bool("show", false, "print the trace")
)

func TestSeeds(t *testing.T) {
	scheme := simulation.NewScheme()
	var total simulation.Counts
	for i := range *seeds {
		seed := *from + uint64(i)
		s := simulation.Draw(seed)
		var trace *simulation.Trace
		if *show {
			trace = simulation.NewTrace()
		}
		var result simulation.Result
		synctest.Test(t, func(*testing.T) { result = simulation.Run(s, scheme, trace) })
		for _, failure := range result.Failures {
			t.Errorf("seed %d: %s", seed, failure)
		}
		if *show {
			t.Logf("%s\n%s", s, trace)
		}
		total.Removals += result.Counts.Removals
		total.Admitted += result.Counts.Admitted
		total.Refused += result.Counts.Refused
		total.Effective += result.Counts.Effective
		total.Writes += result.Counts.Writes
		total.Races += result.Counts.Races
		total.Losses += result.Counts.Losses
	}
	t.Logf("%+v", total)
}
