package simulation_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/play"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/trace"
)

// determinismSeeds are seeds that once had several possible runs. The run depended on which of the callers that one batch had delayed reached the
// next protector first (10013, 10040, 10044, 10056), how many events of a burst a count had seen (10057), in which order protectors were
// delivered (10130, 10148), whether a link was healed before the weather changed (7, 10038, 10042), which random values an old watch took
// from its successor (2) and in which order the judge deleted entries (22).
var determinismSeeds = []uint64{2, 7, 22, 10013, 10038, 10040, 10042, 10044, 10056, 10057, 10130, 10148}

// A failure that cannot be reproduced is of little use. A select of several channels that are ready is still random. If two runs differ, a third must
// equal one of them.
func TestSeedIsDeterministic(t *testing.T) { playTwice(t, determinismSeeds, scenario.Draw) }

// In these seeds, accidents lower the floors of several Deployments.
func TestSeedWithDecreasesIsDeterministic(t *testing.T) {
	playTwice(t, []uint64{25, 101}, scenario.Draw)
}

// In these seeds, floors are computed, and users and controllers change workloads.
func TestSeedWithComputedFloorsIsDeterministic(t *testing.T) {
	playTwice(t, []uint64{50, 67}, scenario.Draw)
}

// In these seeds, objects of operators are above workloads (1), and selectors move (12).
func TestOwnerSeedIsDeterministic(t *testing.T) { playTwice(t, []uint64{1, 12}, scenario.DrawOwners) }

func TestSharedSeedIsDeterministic(t *testing.T) {
	playTwice(t, []uint64{1, 7, 1164}, scenario.DrawShared)
}

// Two of these seeds have break-glass removals, two cores, and a protector that gets no shares (6, 125).
func TestShareSeedIsDeterministic(t *testing.T) {
	playTwice(t, []uint64{2, 6, 62, 125, 192}, scenario.DrawShares)
}

// In these seeds, webhooks have the scope Protected, with shards (3) and shares (12).
func TestScopeSeedIsDeterministic(t *testing.T) {
	playTwice(t, []uint64{1, 3, 12}, scenario.DrawScope)
}

func playTwice(t *testing.T, all []uint64, draw func(seed uint64) scenario.Scenario) {
	t.Helper()
	runs := 2
	if *times > 0 {
		all, runs = nil, *times
		for i := range uint64(*seeds) {
			all = append(all, *from+i)
		}
	}
	scheme := play.NewScheme()
	differ := 0
	for _, seed := range all {
		hashes, difference := map[string]int{}, ""
		var first *trace.Trace
		for run := 0; run < runs || *times == 0 && run == runs && len(hashes) > 1; run++ {
			events := trace.New()
			runScenario(t, scheme, draw(seed), events)
			hashes[events.Hash()]++
			if first == nil {
				first = events
			}
			if difference == "" && events.Hash() != first.Hash() {
				difference = divergence(first.Settled(), events.Settled())
			}
		}
		if most := slices.Max(slices.Collect(maps.Values(hashes))); len(hashes) > 1 && (*times > 0 || most == 1) {
			differ++
			t.Errorf("seed %d had %d different runs, want 1: %v:\n%s", seed, len(hashes), slices.Sorted(maps.Values(hashes)), difference)
		}
	}
	t.Logf("%d of %d seeds have different traces in %d runs each", differ, len(all), runs)
}

// recordingRuns is how often a seed is run to record which traces it can have.
const recordingRuns = 6

// TestEvidence compares behavior that a refactoring must not change with a recording: the trace of each seed, and the texts of denials.
func TestEvidence(t *testing.T) {
	if *evidence == "" {
		t.Skip("-evidence must be compare or record")
	}
	known := recorded(t, "evidence-traces.txt")
	traces, denials := map[string]bool{}, map[string]bool{}
	scheme := play.NewScheme()
	for _, of := range []struct {
		kind  string
		seeds int
		draw  func(uint64) scenario.Scenario
	}{{"seed", 60, scenario.Draw}, {"shared seed", 15, scenario.DrawShared}, {"widened seed", 15, scenario.DrawCoverageChanges}} {
		for i := range of.seeds {
			seed, found := uint64(i)+1, false
			var all []string
			for run := 0; run < recordingRuns && (*evidence == "record" || !found); run++ {
				events := trace.New()
				runScenario(t, scheme, of.draw(seed), events)
				line := fmt.Sprintf("%s %d: %s", of.kind, seed, events.Hash())
				all = append(all, line)
				found, traces[line] = found || known[line], true
				for _, denial := range denialPattern.FindAllStringSubmatch(events.String(), -1) {
					denials[podNamePattern.ReplaceAllString(denial[1], "*")] = true
				}
			}
			if *evidence == "compare" && !found {
				t.Errorf("%s %d has trace %q, want one of its recorded traces", of.kind, seed, all)
			}
		}
	}
	if *evidence == "record" {
		record(t, "evidence-traces.txt", traces)
		record(t, "evidence-denials.txt", denials)
		return
	}
	known = recorded(t, "evidence-denials.txt")
	for denial := range denials {
		if !known[denial] {
			t.Errorf("a denial was not recorded: %s", denial)
		}
	}
}

func recorded(t *testing.T, file string) map[string]bool {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		lines[strings.TrimSuffix(line, "\n")] = true
	}
	return lines
}

func record(t *testing.T, file string, lines map[string]bool) {
	t.Helper()
	text := strings.Join(slices.Sorted(maps.Keys(lines)), "\n") + "\n"
	if err := os.WriteFile(filepath.Join("testdata", file), []byte(text), 0o644); err != nil { //nolint:gosec // it is committed
		t.Fatal(err)
	}
}

var (
	denialPattern = regexp.MustCompile(`(?m) is denied: (.*)$`)
	// podNamePattern are the parts of a denial that differ from pod to pod.
	podNamePattern = regexp.MustCompile(`"[^"]*"|[a-z0-9.-]+/[a-z0-9.-]+|[0-9]+(\.[0-9]+)?(µs|ms|s|m)?`)
)

// divergence shows where two traces diverge.
func divergence(a, b string) string {
	one, other := strings.Split(a, "\n"), strings.Split(b, "\n")
	at := 0
	for at < min(len(one), len(other)) && one[at] == other[at] {
		at++
	}
	show := func(lines []string) string { return strings.Join(lines[at:min(at+4, len(lines))], "\n  ") }
	return "after\n  " + strings.Join(one[max(0, at-8):at], "\n  ") + "\nthe first continues\n  " + show(one) + "\nthe second continues\n  " + show(other)
}
