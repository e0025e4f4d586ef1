package simulation_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/simulation"
)

// oneRun are seeds that have once been several runs: by which of those whom one flight had kept waiting came first to the
// next protector (10013, 10040, 10044, 10056), how many events of a burst a count had seen (10057), in which order protectors
// were told of (10130, 10148), whether a link was healed before the weather changed (7, 10038, 10042), what an old watch drew
// from the luck of its successor (2) and in which order a judge forgot (22).
var oneRun = []uint64{2, 7, 22, 10013, 10038, 10040, 10042, 10044, 10056, 10057, 10130, 10148}

// A failure that cannot be played again is of little use. Where two goroutines ask at one instant for the same, Go's scheduler still decides
// now and then: of two runs that differ, a third must be one.
func TestASeedIsOneRun(t *testing.T) { playAgain(t, oneRun, simulation.Draw) }

// In these, accidents lower the floors of several Deployments.
func TestASeedWithDecreasesIsOneRun(t *testing.T) { playAgain(t, []uint64{25, 101}, simulation.Draw) }

// In these, floors are computed, and users and controllers change workloads.
func TestASeedWithComputedFloorsIsOneRun(t *testing.T) {
	playAgain(t, []uint64{50, 67}, simulation.Draw)
}

func TestASharedSeedIsOneRun(t *testing.T) { playAgain(t, []uint64{1, 7, 1164}, simulation.DrawShared) }

func playAgain(t *testing.T, all []uint64, draw func(seed uint64) simulation.Scenario) {
	t.Helper()
	runs := 2
	if *times > 0 {
		all, runs = nil, *times
		for i := range uint64(*seeds) {
			all = append(all, *from+i)
		}
	}
	scheme := simulation.NewScheme()
	differ := 0
	for _, seed := range all {
		hashes, parting := map[string]int{}, ""
		var first *simulation.Trace
		for run := 0; run < runs || *times == 0 && run == runs && len(hashes) > 1; run++ {
			trace := simulation.NewTrace()
			play(t, scheme, draw(seed), trace)
			hashes[trace.Hash()]++
			if first == nil {
				first = trace
			}
			if parting == "" && trace.Hash() != first.Hash() {
				parting = part(first.Settled(), trace.Settled())
			}
		}
		if most := slices.Max(slices.Collect(maps.Values(hashes))); len(hashes) > 1 && (*times > 0 || most == 1) {
			differ++
			t.Errorf("seed %d is %d runs, %v:\n%s", seed, len(hashes), slices.Sorted(maps.Values(hashes)), parting)
		}
	}
	t.Logf("%d of %d seeds differ in %d runs each", differ, len(all), runs)
}

// part shows where two traces part.
func part(a, b string) string {
	one, other := strings.Split(a, "\n"), strings.Split(b, "\n")
	at := 0
	for at < min(len(one), len(other)) && one[at] == other[at] {
		at++
	}
	show := func(lines []string) string { return strings.Join(lines[at:min(at+4, len(lines))], "\n  ") }
	return "after\n  " + strings.Join(one[max(0, at-8):at], "\n  ") + "\none goes on\n  " + show(one) + "\nthe other\n  " + show(other)
}
