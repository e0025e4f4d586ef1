// Package accidents_test plays the accidents that delete, scale down or edit the workloads themselves, on a real control plane with
// Breakwater installed by its charts as the README says, and asserts that the floors outlive them. It writes accidents-report.
package accidents_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/internal/federation"
	"github.com/breakwater-k8s/breakwater/internal/federation/local"
	"github.com/breakwater-k8s/breakwater/internal/install"
	"github.com/breakwater-k8s/breakwater/internal/release"
)

const root = "../../"

// What the tests of the package share.
var (
	single    = e2e.NewSuiteBy("single", begin)
	installed *release.Release
)

func TestMain(m *testing.M) { os.Exit(single.Main(m)) }

// begin installs the charts with the defaults of the README.
func begin(ctx context.Context, s *e2e.Suite) (func(), error) {
	cluster := s.Federation().Clusters()[0]
	r, err := release.New(ctx, cluster, s.Program(), s.Dir(), root+"charts/")
	if err != nil {
		return nil, err
	}
	installed = r
	if err = r.InstallDefinitions(ctx); err == nil {
		err = r.Install(ctx, map[string]any{
			"role": "single", "core": map[string]any{"name": cluster.Name()},
			"cells": []any{map[string]any{"name": cluster.Name(), "spec": map[string]any{"admissionDeadline": e2e.AdmissionDeadline.String()}}},
		}, "--wait")
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r.Close, nil
}

// startFederation brings up a core and two workers, with Breakwater beside them, until the test ends.
func startFederation(t *testing.T) *e2e.Suite {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	topology, err := federation.Embedded("federated")
	must(err)
	dir := t.TempDir()
	f, err := local.Start(t.Context(), topology, local.Options{
		Binaries: filepath.SplitList(os.Getenv(local.BinariesVariable)), Dir: filepath.Join(dir, "federation"), Log: logr.Discard(),
	})
	must(err)
	t.Cleanup(func() { must(f.Stop(context.Background())) })
	breakwater, err := install.Start(t.Context(), install.Options{
		Program: single.Program(), Dir: dir, Cores: f.Cores(), Workers: f.Workers(), AdmissionDeadline: e2e.AdmissionDeadline,
	})
	must(err)
	t.Cleanup(breakwater.Stop)
	must(breakwater.Guard(t.Context()))
	s, err := e2e.Over(f)
	must(err)
	return s
}
