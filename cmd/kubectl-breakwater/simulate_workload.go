package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/drain"
)

// workload is the workload of a scaling or a rollout.
type workload struct {
	kind, name string
	replicas   int
	selector   *metav1.LabelSelector
	pods       []corev1.Pod
	// surge and unavailable are the numbers of pods that a rollout adds and removes at a time. recreate reports whether it removes all
	// pods first.
	surge, unavailable int
	recreate           bool
}

func (f *simulateFlags) scaleCommand() *cobra.Command {
	replicas := -1
	command := f.bindTo(&cobra.Command{
		Use:     "scale KIND/NAME --replicas N",
		Short:   "Like kubectl scale, for a deployment, statefulset or replicaset of the cell",
		Example: `  kubectl breakwater simulate scale deployment/web --replicas 2 -n shop`,
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			if replicas < 0 {
				return fmt.Errorf("--replicas is required: set the number of pods to keep")
			}
			return f.run(command.Context(), fmt.Sprintf("scaling of %s to %d", arguments[0], replicas), func(ctx context.Context, at cellAccess) (s simulationResult, err error) {
				w, err := f.workload(ctx, at, arguments[0])
				if err != nil {
					return s, err
				}
				return s, f.scale(ctx, at, w, replicas, &s)
			})
		},
	}, false)
	command.Flags().IntVar(&replicas, "replicas", -1, "`number` of pods to keep")
	return command
}

func (f *simulateFlags) rolloutCommand() *cobra.Command {
	return f.bindTo(&cobra.Command{
		Use:     "rollout KIND/NAME",
		Short:   "Like kubectl rollout restart, for a deployment or statefulset of the cell",
		Example: `  kubectl breakwater simulate rollout deployment/web -n shop --replacements-ready-after 90s`,
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			return f.run(command.Context(), "rollout of "+arguments[0], func(ctx context.Context, at cellAccess) (s simulationResult, err error) {
				w, err := f.workload(ctx, at, arguments[0])
				if err != nil {
					return s, err
				}
				return s, f.rollout(ctx, at, w, &s)
			})
		},
	}, true)
}

// workload reads a workload and its pods.
func (f *simulateFlags) workload(ctx context.Context, at cellAccess, argument string) (w workload, err error) {
	namespace, err := f.clusters.Namespace()
	if err != nil {
		return w, err
	}
	kind, name := splitTypeName(argument)
	if name == "" {
		kind = ""
	}
	switch kind {
	case "deployment", "deployments", "deploy":
		var d *appsv1.Deployment
		if d, err = at.Client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			w = deploymentWorkload(d)
		}
	case "statefulset", "statefulsets", "sts":
		var s *appsv1.StatefulSet
		if s, err = at.Client.AppsV1().StatefulSets(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			w = workload{kind: "StatefulSet", name: name, replicas: int(ptr.Deref(s.Spec.Replicas, 1)), selector: s.Spec.Selector, unavailable: 1}
		}
	case "replicaset", "replicasets", "rs":
		var s *appsv1.ReplicaSet
		if s, err = at.Client.AppsV1().ReplicaSets(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			w = workload{kind: "ReplicaSet", name: name, replicas: int(ptr.Deref(s.Spec.Replicas, 1)), selector: s.Spec.Selector}
		}
	default:
		return w, fmt.Errorf("%q: want deployment/NAME, statefulset/NAME or replicaset/NAME", argument)
	}
	if err != nil {
		return w, withRemedy(at.config, fmt.Errorf("read %s from cell %q: %w", argument, at.Cell, err))
	}
	list, err := at.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(w.selector)})
	if err != nil {
		return w, withRemedy(at.config, fmt.Errorf("list the pods of %s: %w", argument, err))
	}
	w.pods = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil || metav1.GetControllerOf(&p) == nil })
	slices.SortStableFunc(w.pods, w.compareRemovalOrder)
	return w, nil
}

func deploymentWorkload(d *appsv1.Deployment) workload {
	w := workload{kind: "Deployment", name: d.Name, replicas: int(ptr.Deref(d.Spec.Replicas, 1)), selector: d.Spec.Selector}
	rolling := d.Spec.Strategy.RollingUpdate
	if w.recreate = d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType; w.recreate || rolling == nil {
		return w
	}
	// The API server has validated that these are numbers or percentages.
	w.surge, _ = intstr.GetScaledValueFromIntOrPercent(rolling.MaxSurge, w.replicas, true)
	w.unavailable, _ = intstr.GetScaledValueFromIntOrPercent(rolling.MaxUnavailable, w.replicas, false)
	return w
}

// compareRemovalOrder is the approximate order in which controllers remove pods. StatefulSets remove the highest ordinal first. Others remove pods
// that are not Ready first, and then the youngest.
func (w workload) compareRemovalOrder(a, b corev1.Pod) int {
	if w.kind == "StatefulSet" {
		return cmp.Or(cmp.Compare(len(b.Name), len(a.Name)), cmp.Compare(b.Name, a.Name))
	}
	return cmp.Or(cmp.Compare(readinessRank(&a), readinessRank(&b)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

func readinessRank(pod *corev1.Pod) int {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return 1
		}
	}
	return 0
}

// scale removes the surplus pods. Floors that are computed from the requested replicas decrease when an aggregator has counted those.
func (f *simulateFlags) scale(ctx context.Context, at cellAccess, w workload, replicas int, s *simulationResult) error {
	surplus := max(0, len(w.pods)-replicas)
	all, _, err := podsToRemove(ctx, at, w.pods[:surplus], v1alpha1.OperationDelete, time.Nanosecond)
	if err != nil || len(all) == 0 {
		return err
	}
	for i := range all {
		all[i].HasReplacement = false
	}
	s.Pods = len(all)
	books := drain.NewSimulation(at.Cell, f.now(), all)
	s.Outcome = drain.Simulate(books, all, drain.Strategy{})
	if s.RemovesAll() {
		return nil
	}
	followers := books.ReduceExpected(all[0], w.replicas-replicas)
	if len(followers) == 0 {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(all), func(p drain.Pod) bool {
		return !slices.ContainsFunc(s.Stuck, func(r drain.Refusal) bool { return r.Pod == p.Name() })
	})
	later := drain.Simulate(books, left, drain.Strategy{})
	s.Waves, s.Stuck = append(s.Waves, later.Waves...), later.Stuck
	s.Notes = append(s.Notes, fmt.Sprintf("the floor of %s is derived from the workloads' replicas: the last wave is after the floor "+
		"has decreased", strings.Join(followers, ", ")))
	return nil
}

// rollout removes all pods, as many at a time as the strategy permits.
func (f *simulateFlags) rollout(ctx context.Context, at cellAccess, w workload, s *simulationResult) error {
	if w.kind == "ReplicaSet" {
		return fmt.Errorf("a ReplicaSet has no rollout: name its Deployment")
	}
	all, notes, err := podsToRemove(ctx, at, w.pods, v1alpha1.OperationDelete, max(f.after, time.Nanosecond))
	if err != nil || len(all) == 0 {
		return err
	}
	s.Pods, s.Notes = len(all), append(s.Notes, notes...)
	books := drain.NewSimulation(at.Cell, f.now(), all)
	rule := drain.Strategy{MaxPerWave: w.unavailable, WaitForReplacements: f.after > 0}
	switch {
	case w.recreate:
		rule.MaxPerWave = 0
	case f.after > 0 && w.surge > 0:
		books.AddAvailable(all[0], w.surge)
		rule.MaxPerWave += w.surge
		s.Notes = append(s.Notes, "assumes that the rollout has "+printable.Count(w.surge, "surplus pod")+" available before the first wave")
	case rule.MaxPerWave == 0:
		s.Notes = append(s.Notes, fmt.Sprintf("the rollout removes no pod until a surplus pod (of %d) is available", w.surge))
		for _, p := range all {
			s.Stuck = append(s.Stuck, drain.Refusal{Pod: p.Name(), Node: p.Request.Pod.Spec.NodeName, Verdict: "Waits", Message: "the rollout does not remove " +
				"the pod until a new pod is available"})
		}
		f.noteReplacements(s)
		return nil
	}
	s.Outcome = drain.Simulate(books, all, rule)
	f.noteReplacements(s)
	return nil
}
