// Package accidents_test plays the accidents that delete, scale down or edit the workloads themselves, on a real control plane with
// Breakwater installed by its charts as the README says, and asserts that the floors outlive them. It writes accidents-report.
package accidents_test

import (
	"context"
	"os"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
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
