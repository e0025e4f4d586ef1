// Package charts_test installs Breakwater by its charts in one cluster, lets a storm rage, upgrades and uninstalls.
package charts_test

import (
	"context"
	"os"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/internal/release"
)

const folder = "../../charts/"

// What the tests of the package share.
var (
	single    = e2e.NewSuiteBy("single", begin)
	installed *release.Release
)

func TestMain(m *testing.M) { os.Exit(single.Main(m)) }

func begin(ctx context.Context, s *e2e.Suite) (func(), error) {
	cluster := s.Federation().Clusters()[0]
	r, err := release.New(ctx, cluster, s.Program(), s.Dir(), folder)
	if err != nil {
		return nil, err
	}
	installed = r
	err = r.InstallDefinitions(ctx)
	if err == nil {
		err = r.Install(ctx, map[string]any{
			"role": "single", "core": map[string]any{"name": cluster.Name()}, "webhook": map[string]any{"scheduling": map[string]any{"enabled": true}},
			"cells": []any{map[string]any{"name": cluster.Name(), "spec": map[string]any{"admissionDeadline": e2e.AdmissionDeadline.String()}}},
		}, "--wait")
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r.Close, nil
}
