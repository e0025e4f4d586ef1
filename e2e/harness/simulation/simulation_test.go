// The jitter of client-go comes from the global source of math/rand, which the seed must determine.
//
//go:debug randseednop=0
package simulation_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/play"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/trace"
)

var (
	seeds = flag.Int("seeds", 60, "number of `seeds` to run")
	from  = flag.Uint64("from", 1, "the first `seed`")
	quick = flag.Bool("quick", false, "stop at the first failing seed and print only the reason")
	save  = flag.String("save", "", "`file` to write the shortened scenario of the first failing seed to, for testdata/corpus")
	times = flag.Int("times", 0, "number of `times` that TestSeedIsDeterministic runs each of -seeds, beginning at -from")
	// evidence is for hack/evidence.
	evidence = flag.String("evidence", "", "mode of TestEvidence: `compare` or record")

	show = flag.Bool("show", false, "print the full trace of a failing seed")
)

// runScenario runs a scenario on one thread. Goroutines that become ready at one instant then run in the same order each time, so that a seed has one
// run. It also takes less CPU.
func runScenario(t *testing.T, scheme *kruntime.Scheme, s scenario.Scenario, events *trace.Trace) (result play.Result) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(*testing.T) { result = play.Run(s, scheme, events) })
	return result
}

func TestSeeds(t *testing.T) { runSeeds(t, *seeds, scenario.Draw) }

// Shards divide the cells, and stop and return.
func TestSharedSeeds(t *testing.T) { runSeeds(t, *seeds/4, scenario.DrawShared) }

// The coverage of protectors changes in the middle of bursts.
func TestCoverageChangeSeeds(t *testing.T) { runSeeds(t, *seeds/6, scenario.DrawCoverageChanges) }

// Cells decide on shares of the floor, and are cut off the core.
func TestShareSeeds(t *testing.T) { runSeeds(t, *seeds/2, scenario.DrawShares) }

// Operators' objects control workloads, and selectors in the status of a scale move.
func TestOwnerSeeds(t *testing.T) { runSeeds(t, *seeds/3, scenario.DrawOwners) }

// Replicas reserve in advance, and stop, lose their connections, or their core is restored.
func TestEscrowSeeds(t *testing.T) { runSeeds(t, *seeds/3, scenario.DrawEscrows) }

// Webhooks have the scope Protected, and namespaces lose their label.
func TestScopeSeeds(t *testing.T) { runSeeds(t, *seeds/3, scenario.DrawScope) }

func runSeeds(t *testing.T, seeds int, draw func(seed uint64) scenario.Scenario) {
	t.Helper()
	scheme := play.NewScheme()
	total := judge.Counts{Excused: judge.ExcuseCounts{}}
	for i := range seeds {
		s := draw(*from + uint64(i))
		result := runScenario(t, scheme, s, nil)
		total.Add(result.Counts)
		if done := i + 1; done%1000 == 0 && done < seeds {
			t.Logf("%d of %d seeds", done, seeds)
		}
		if len(result.Failures) == 0 {
			continue
		}
		if *quick {
			t.Fatalf("seed %d: %v", s.Seed, result.Failures)
		}
		if !*show {
			s = scenario.Shorten(s, func(s scenario.Scenario) bool { return len(runScenario(t, scheme, s, nil).Failures) > 0 })
		}
		events := trace.New()
		runScenario(t, scheme, s, events)
		if *save != "" {
			saveScenario(t, s)
			return
		}
		t.Errorf("seed %d: %v\n%s\n%s", s.Seed, result.Failures, s, events)
	}
	t.Logf("%d seeds: %+v", seeds, total)
}

func saveScenario(t *testing.T, s scenario.Scenario) {
	t.Helper()
	raw, err := json.MarshalIndent(s, "", " ")
	if err == nil {
		err = os.WriteFile(*save, append(raw, '\n'), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The corpus has scenarios that once failed, or in which a mutant of the rules fails. The name of a file states the problem.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/corpus/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	scheme := play.NewScheme()
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var s scenario.Scenario
			decoder := json.NewDecoder(bytes.NewReader(raw))
			decoder.DisallowUnknownFields() // a field that has another name now would be lost
			if err := decoder.Decode(&s); err != nil {
				t.Fatal(err)
			}
			events := trace.New()
			if failures := runScenario(t, scheme, s, events).Failures; len(failures) > 0 {
				t.Errorf("%v\n%s\n%s", failures, s, events)
			}
		})
	}
}
