// Package chaos_test runs a few of the scenarios of make chaos.
package chaos_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-logr/logr"

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

func TestStormsWithFaults(t *testing.T) {
	folder := t.TempDir()
	program := filepath.Join(folder, "breakwater")
	if err := binaries.Build(t.Context(), program, binaries.Breakwater); err != nil {
		t.Fatal(err)
	}
	stage, err := chaos.OpenStage(t.Context(), chaos.StageOptions{
		Program: program, Dir: folder, Binaries: filepath.SplitList(os.Getenv(local.BinariesVariable)), Log: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stage.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
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
