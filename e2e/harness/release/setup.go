package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// Setup installs Breakwater in the clusters of a topology, as docs/how-to/install.md describes.
type Setup struct {
	// Program is the path of breakwater, Dir a directory for the releases, Charts the directory of the charts.
	Program, Dir, Charts string
	// Deadline is the admission deadline of the cells.
	Deadline time.Duration
	// Scheduling enables the admission of pods by scheduling policies.
	Scheduling bool
	// Shares lets the workers have shares of floors.
	Shares bool
	// Values are added to those of each release; nil adds none.
	Values map[string]any
}

// Releases are the releases of a topology, the core's first.
type Releases []*Release

// Close ends all processes. Objects in the clusters stay.
func (rs Releases) Close() {
	for _, r := range rs {
		r.Close()
	}
}

// Problems returns the problems of all clusters.
func (rs Releases) Problems() error {
	var all []error
	for _, r := range rs {
		all = append(all, r.Problems())
	}
	return errors.Join(all...)
}

// Single installs Breakwater in a cluster that is core and worker.
func (s Setup) Single(ctx context.Context, cluster federation.Cluster) (*Release, error) {
	r, err := New(ctx, cluster, s.Program, s.Dir, s.Charts)
	if err != nil {
		return nil, err
	}
	if err = r.InstallDefinitions(ctx); err == nil {
		err = r.Install(ctx, s.values(map[string]any{
			"role": "single", "core": map[string]any{"name": cluster.Name()}, "webhook": map[string]any{"scheduling": s.scheduling()},
			"cells": []any{s.cell(cluster)},
		}), "--wait")
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Federation installs Breakwater in a core and its workers, and joins them.
func (s Setup) Federation(ctx context.Context, core federation.Cluster, workers []federation.Cluster) (Releases, error) {
	var all Releases
	fail := func(err error) (Releases, error) {
		err = errors.Join(err, all.Problems())
		all.Close()
		return nil, err
	}
	for _, cluster := range append([]federation.Cluster{core}, workers...) {
		r, err := New(ctx, cluster, s.Program, s.Dir, s.Charts)
		if err != nil {
			return fail(err)
		}
		all = append(all, r)
	}
	if err := s.installCore(ctx, all[0], workers); err != nil {
		return fail(err)
	}
	for _, worker := range all[1:] {
		if err := s.installWorker(ctx, all[0], worker); err != nil {
			return fail(err)
		}
	}
	return all, nil
}

func (s Setup) installCore(ctx context.Context, core *Release, workers []federation.Cluster) error {
	var cells []any
	for _, worker := range workers {
		cells = append(cells, s.cell(worker))
	}
	if err := core.InstallDefinitions(ctx); err != nil {
		return err
	}
	return core.Install(ctx, s.values(map[string]any{
		"shares": map[string]any{"enabled": s.Shares}, "aggregator": map[string]any{"enabled": !s.Shares}, "access": map[string]any{"aggregator": s.Shares},
		"role": "core", "core": map[string]any{"name": core.Cluster.Name()}, "remoteCells": cells,
		"webhook": map[string]any{"enabled": false, "scheduling": s.scheduling()},
	}), "--wait")
}

func (s Setup) installWorker(ctx context.Context, core, worker *Release) error {
	if s.Shares {
		if err := worker.InstallDefinitions(ctx); err != nil {
			return err
		}
	}
	err := worker.Install(ctx, s.values(map[string]any{
		"shares": map[string]any{"enabled": s.Shares}, "aggregator": map[string]any{"enabled": s.Shares},
		"role": "worker", "cores": []any{map[string]any{"name": core.Cluster.Name()}}, "cells": []any{map[string]any{"name": worker.Cluster.Name()}},
		"webhook": map[string]any{"scheduling": s.scheduling()},
	}), "--skip-crds")
	if err != nil {
		return err
	}
	if err := s.join(ctx, core, worker); err != nil {
		return err
	}
	out, err := worker.Helm(ctx, "upgrade", "breakwater", filepath.Join(worker.Charts, "breakwater"), "--values", worker.Values, "--wait")
	if err != nil {
		return fmt.Errorf("wait for the release in cluster %s: %w\n%s", worker.Cluster.Name(), err, out)
	}
	return nil
}

// join gives a core and a worker access to each other.
func (s Setup) join(ctx context.Context, core, worker *Release) error {
	arguments := []string{
		"join", "--cell", worker.Cluster.Name(), "--core", core.Cluster.Name(), "--no-cell",
		"--core-kubeconfig", core.Cluster.Kubeconfig(), "--kubeconfig", worker.Cluster.Kubeconfig(),
	}
	if s.Scheduling {
		arguments = append(arguments, "--scheduling")
	}
	if out, err := exec.CommandContext(ctx, s.Program, arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("breakwater join: %w\n%s", err, out)
	}
	return nil
}

// values returns the values of a release, with s.Values added.
func (s Setup) values(own map[string]any) map[string]any {
	maps.Copy(own, s.Values)
	return own
}

func (s Setup) cell(cluster federation.Cluster) map[string]any {
	return map[string]any{"name": cluster.Name(), "spec": map[string]any{"admissionDeadline": s.Deadline.String()}}
}

func (s Setup) scheduling() map[string]any { return map[string]any{"enabled": s.Scheduling} }
