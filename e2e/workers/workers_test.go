// Package workers_test installs Breakwater by its charts in a core and two workers, joins them by breakwater join, and lets a storm
// rage: each component runs with the rights that the charts grant, here and in the other clusters.
package workers_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/internal/release"
	"github.com/breakwater-k8s/breakwater/internal/storm"
)

// What the tests of the package share.
var (
	federated = e2e.NewSuiteBy("federated", begin)
	installed []*release.Release
)

func TestMain(m *testing.M) { os.Exit(federated.Main(m)) }

func begin(ctx context.Context, s *e2e.Suite) (func(), error) {
	stop := func() {
		for _, r := range installed {
			r.Close()
		}
	}
	for _, cluster := range s.Federation().Clusters() {
		r, err := release.New(ctx, cluster, s.Program(), s.Dir(), "../../charts/")
		if err != nil {
			stop()
			return nil, err
		}
		installed = append(installed, r)
	}
	err := build(ctx, s, installed[0], installed[1:])
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// build does what docs/install.md says of a core and workers.
func build(ctx context.Context, s *e2e.Suite, core *release.Release, workers []*release.Release) error {
	var cells []any
	schedules := map[string]any{"enabled": true}
	for _, worker := range workers {
		spec := map[string]any{"admissionDeadline": e2e.AdmissionDeadline.String()}
		cells = append(cells, map[string]any{"name": worker.Cluster.Name(), "spec": spec})
	}
	err := core.InstallDefinitions(ctx)
	if err == nil {
		err = core.Install(ctx, map[string]any{
			"role": "core", "core": map[string]any{"name": core.Cluster.Name()}, "remoteCells": cells,
			"webhook": map[string]any{"enabled": false, "scheduling": schedules},
		}, "--wait")
	}
	if err != nil {
		return err
	}
	for _, worker := range workers {
		name := worker.Cluster.Name()
		err := worker.Install(ctx, map[string]any{
			"role": "worker", "cores": []any{map[string]any{"name": core.Cluster.Name()}}, "cells": []any{map[string]any{"name": name}},
			"webhook": map[string]any{"scheduling": schedules},
		})
		if err == nil {
			err = join(ctx, s, core, worker)
		}
		if err == nil {
			_, err = worker.Helm(ctx, "upgrade", "breakwater", worker.Charts+"breakwater", "--values", worker.Values, "--wait")
		}
		if err != nil {
			return errors.Join(err, worker.Complaints())
		}
	}
	return nil
}

// join gives a core and a worker the way into each other.
func join(ctx context.Context, s *e2e.Suite, core, worker *release.Release) error {
	out, err := exec.CommandContext(ctx, s.Program(), "join", "--cell", worker.Cluster.Name(), "--core", core.Cluster.Name(), "--no-cell", "--scheduling",
		"--core-kubeconfig", core.Cluster.Kubeconfig(), "--kubeconfig", worker.Cluster.Kubeconfig()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("breakwater join: %w\n%s", err, out)
	}
	return nil
}

func complaints() error {
	var all []error
	for _, r := range installed {
		all = append(all, r.Complaints())
	}
	return errors.Join(all...)
}

func TestAStormOnACoreAndItsWorkers(t *testing.T) {
	federated.Claim(t, "the floor over both workers holds, and all of the budget is used", func(l *e2e.Lab) {
		l.AwaitCells(complaints)
		e2e.Tempest{Pods: 60, Floors: []int{40}, Exhausts: true}.Rage(l)
	})
}

func TestNoComponentLacksARightInAnotherCluster(t *testing.T) {
	federated.Claim(t, "floors are reckoned from the workloads of both workers", func(l *e2e.Lab) {
		l.AwaitCells(complaints)
		app := storm.Application{Namespace: l.Namespace, Name: "web", Pods: 12}
		l.Must(app.Deploy(l.Context(), l.Cells))
		share := intstr.FromString("75%")
		l.Protect(0, func(s *v1alpha1.PodProtectorSpec) { s.MinAvailable = &share })
		l.AwaitSummary(e2e.AllAvailable(12))
		l.Eventually(func() string {
			if p := l.Protector(); p.Status.DesiredAvailable != 9 || p.Status.ExpectedReplicas == nil || *p.Status.ExpectedReplicas != 12 {
				return fmt.Sprintf("%+v; %v", p.Status, complaints())
			}
			return ""
		})
		l.Must(complaints())
	})
}

func TestAPolicyOfTheCoreIsForPodsOfEveryWorker(t *testing.T) {
	federated.Claim(t, "new pods have what a policy of their namespace asks for, and it counts them", func(l *e2e.Lab) {
		l.AwaitCells(complaints)
		policy := &v1alpha1.PodSchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "pool"}}
		policy.Spec.PodSelector = &v1alpha1.PodSelector{}
		policy.Spec.Tolerations = []v1alpha1.Toleration{{Key: "example.com/pool", Operator: "Exists"}}
		l.Must(l.Core.Create(l.Context(), policy))
		read := func() *v1alpha1.PodSchedulingPolicy {
			l.Must(l.Core.Get(l.Context(), client.ObjectKeyFromObject(policy), policy))
			return policy
		}
		l.Eventually(func() string {
			if !meta.IsStatusConditionTrue(read().Status.Conditions, v1alpha1.ConditionReady) {
				return fmt.Sprintf("%+v; %v", policy.Status, complaints())
			}
			return ""
		})
		// The condition is one webhook's; each of them may take its time to hear of the policy.
		injected := map[string]bool{}
		l.Eventually(func() string {
			for _, cell := range l.Cells {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, GenerateName: "web-"}}
				pod.Spec.Containers = []corev1.Container{{Name: "app", Image: storm.Image}}
				pod, err := cell.Client.CoreV1().Pods(l.Namespace).Create(l.Context(), pod, metav1.CreateOptions{})
				l.Must(err)
				for _, toleration := range pod.Spec.Tolerations {
					injected[cell.Name] = injected[cell.Name] || toleration.Key == "example.com/pool"
				}
			}
			if len(injected) < len(l.Cells) || slices.Contains(slices.Collect(maps.Values(injected)), false) || read().Status.Injected < int64(len(l.Cells)) {
				return fmt.Sprintf("%v and %+v; %v", injected, policy.Status, complaints())
			}
			return ""
		})
		l.Must(complaints())
	})
}
