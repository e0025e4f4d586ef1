// The jitter of client-go comes from the global source of math/rand, which a seed must reach.
//
//go:debug randseednop=0
package simulation_test

import (
	"flag"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/internal/simulation"
)

var (
	seeds = flag.Int("seeds", 60, "how many `seeds` to play")
	from  = flag.Uint64("from", 1, "the first `seed`")
	quick = flag.Bool("quick", false, "stop at the first seed that fails, and say no more than why")
	show  = flag.Bool("show", false, "print the trace of a seed that fails, as it is and not shortened")
)

func play(t *testing.T, scheme *runtime.Scheme, s simulation.Scenario, trace *simulation.Trace) (result simulation.Result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { result = simulation.Run(s, scheme, trace) })
	return result
}

func TestSeeds(t *testing.T) {
	scheme := simulation.NewScheme()
	var total simulation.Counts
	for i := range *seeds {
		s := simulation.Draw(*from + uint64(i))
		result := play(t, scheme, s, nil)
		total.Add(result.Counts)
		if len(result.Failures) == 0 {
			continue
		}
		if *quick {
			t.Fatalf("seed %d: %v", s.Seed, result.Failures)
		}
		if !*show {
			s = simulation.Shorten(s, func(s simulation.Scenario) bool { return len(play(t, scheme, s, nil).Failures) > 0 })
		}
		trace := simulation.NewTrace()
		play(t, scheme, s, trace)
		t.Errorf("seed %d: %v\n%s\n%s", s.Seed, result.Failures, s, trace)
	}
	t.Logf("%d seeds: %+v", *seeds, total)
}

// A failure that cannot be played again is of little use.
func TestASeedIsOneRun(t *testing.T) {
	scheme := simulation.NewScheme()
	for seed := range uint64(12) {
		var traces [2]string
		for i := range traces {
			trace := simulation.NewTrace()
			play(t, scheme, simulation.Draw(seed), trace)
			traces[i] = trace.String()
		}
		if diff := cmp.Diff(traces[0], traces[1]); diff != "" {
			t.Errorf("seed %d plays differently the second time:\n%s", seed, diff)
		}
	}
}
