// Package chaos_test runs a few of the scenarios of make chaos.
package chaos_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/e2e/harness/binaries"
	"github.com/breakwater-k8s/breakwater/e2e/harness/chaos"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// scenarioNames returns the scenarios that no other test covers.
func scenarioNames() []string {
	return []string{
		"an aggregator is paused, replaced, and resumed",
		"the core's etcd restarts",
		"a worker is restored from a backup, and its revisions decrease",
	}
}

// openStage builds and starts everything, until the end of the test.
func openStage(tb testing.TB, folder string) *chaos.Stage {
	tb.Helper()
	log.SetLogger(logr.Discard()) // client libraries warn if no logger is set
	program := filepath.Join(folder, "breakwater")
	if err := binaries.Build(tb.Context(), program, binaries.Breakwater); err != nil {
		tb.Fatal(err)
	}
	stage, err := chaos.OpenStage(tb.Context(), chaos.StageOptions{
		Program: program, Dir: folder, Binaries: filepath.SplitList(os.Getenv(local.BinariesVariable)), Log: logr.Discard(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := stage.Close(tb.Context()); err != nil {
			tb.Error(err)
		}
	})
	return stage
}

func TestStormsWithFaults(t *testing.T) {
	folder := t.TempDir()
	stage := openStage(t, folder)
	played := 0
	for _, scenario := range chaos.Scenarios() {
		if !slices.Contains(scenarioNames(), scenario.Name) {
			continue
		}
		played++
		result, err := stage.Play(t.Context(), scenario, chaos.Plan{Seed: 1, Scale: 1, Traces: filepath.Join(folder, "traces")})
		if err != nil {
			t.Fatalf("%s: %v\n%+v", scenario.Name, err, result)
		}
		if err := result.Err(); err != nil {
			t.Errorf("%v\n%+v", err, result)
		}
		t.Logf("%+v", result)
	}
	if played != len(scenarioNames()) {
		t.Errorf("%d of %d scenarios were found", played, len(scenarioNames()))
	}
}

var soakDuration = flag.Duration("soak", 4*time.Minute, "how long BenchmarkSoak lasts")

// BenchmarkSoak reports what grows in a sustained storm with rollouts and churn.
func BenchmarkSoak(b *testing.B) {
	folder := b.TempDir()
	stage := openStage(b, folder)
	for b.Loop() {
		result, growth, err := stage.Soak(b.Context(), *soakDuration, chaos.Plan{Seed: 1, Scale: 1, Traces: filepath.Join(folder, "traces")})
		if err != nil {
			b.Fatalf("%v\n%+v", err, result)
		}
		if err := errors.Join(result.Err(), growth.Err()); err != nil {
			b.Errorf("%v\n%+v", err, result)
		}
		b.Logf("%d removals admitted; growth %+v", result.Admitted, growth)
		for name, percent := range growth.Worst() {
			b.ReportMetric(percent, name+"-growth-pct")
		}
	}
	b.ReportMetric(0, "ns/op")
}
