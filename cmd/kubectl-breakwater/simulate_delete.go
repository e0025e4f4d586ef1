package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/deletion"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

// deleteFlags are the flags of simulate delete.
type deleteFlags struct {
	*simulateFlags
	selector string
	// everything is the value of --all, and allNamespaces that of -A.
	everything, allNamespaces bool
}

func (f *simulateFlags) deleteCommand() *cobra.Command {
	of := &deleteFlags{simulateFlags: f}
	command := f.bindTo(&cobra.Command{
		Use:   "delete [TYPE [NAME...] | TYPE/NAME...]",
		Short: "As kubectl delete: of pods in a cell, or of objects in the core cluster that floors depend on",
		Long: `Without a type, or of pods, it simulates the removal of pods from a cell, as the other commands do.

Of any other type it reports what would become of the PodProtectors that depend on the objects, if you deleted them from the core cluster:

  Released  the floor ends: at once if a user confirmed it, or after the quiet period
  Held      the deletion succeeds, and the release brake keeps the floor in force: too many large decreases at once, or a cascade
  Refused   the root guard denies the deletion
  Kept      the floor stays in force, because the deletion does not ask for its release

The types are workloads, namespaces, CustomResourceDefinitions, owners of workloads, podprotectors, protectionpolicies,
clusterprotectionpolicies, cells, and all others that the core cluster serves. All deletions are taken to be requested at the same time, by
a user. The code that decides is that of the generator and of the webhook. Their flags are read from their Deployments in the core cluster.

The exit code is 0 if no floor would be held and no deletion refused, and 2 otherwise.`,
		Example: `  kubectl breakwater simulate delete -l app=web -n shop                # pods
  kubectl breakwater simulate delete deployment web api -n shop
  kubectl breakwater simulate delete deployments,statefulsets --all -A
  kubectl breakwater simulate delete namespace shop
  kubectl breakwater simulate delete crd applications.example.com      # of owners of workloads
  kubectl breakwater simulate delete podprotectors -l team=shop -o json`,
		ValidArgsFunction: of.complete,
		RunE: func(command *cobra.Command, arguments []string) error {
			names, ofPods, err := podArguments(arguments)
			if err != nil {
				return err
			}
			if ofPods {
				return of.runPods(command.Context(), names)
			}
			if command.Flags().Changed("cell") || command.Flags().Changed("replacements-ready-after") {
				return errors.New("--cell and --replacements-ready-after are for pods: other objects are deleted from the core cluster")
			}
			return of.runObjects(command.Context(), arguments)
		},
	}, true)
	flags := command.Flags()
	flags.StringVarP(&of.selector, "selector", "l", "", "`labels` of the objects, as app=web")
	flags.BoolVar(&of.everything, "all", false, "all objects of the type, in the namespace")
	flags.BoolVarP(&of.allNamespaces, "all-namespaces", "A", false, "objects of all namespaces")
	return command
}

// podArguments returns the names of pods. ofPods reports whether the arguments are about pods; this is true without arguments.
func podArguments(arguments []string) (names []string, ofPods bool, err error) {
	if len(arguments) == 0 {
		return nil, true, nil
	}
	if kind, _, _ := strings.Cut(strings.ToLower(arguments[0]), "."); slices.Contains(podKinds, kind) {
		return arguments[1:], true, nil
	}
	for _, argument := range arguments {
		kind, name := typed(argument)
		if slices.Contains(podKinds, kind) {
			names = append(names, name)
		}
	}
	if len(names) > 0 && len(names) < len(arguments) {
		return nil, false, errors.New("pods are removed from a cell, other objects from the core cluster: simulate them one after the other")
	}
	return names, len(names) > 0, nil
}

// runPods simulates the removal of the named pods, or of those that the flags select.
func (f *deleteFlags) runPods(ctx context.Context, names []string) error {
	what := "deletion of pods with " + f.selector
	switch {
	case f.allNamespaces:
		return errors.New("-A is not for pods: give the namespace by -n")
	case len(names) > 0 && (f.selector != "" || f.everything), f.selector != "" && f.everything:
		return errors.New("give one of names, -l and --all")
	case len(names) > 0:
		what = "deletion of pods " + strings.Join(names, ", ")
	case f.everything:
		what = "deletion of all pods"
	case f.selector == "":
		return errors.New("-l is required: which pods? Or name the type of other objects, as deployment web")
	}
	return f.run(ctx, what, func(ctx context.Context, at place) (s simulated, err error) {
		namespace, err := f.clusters.Namespace()
		if err != nil {
			return s, err
		}
		pods, err := f.podsOf(ctx, at, namespace, names)
		if err != nil {
			return s, failure(at.config, err)
		}
		return s, f.play(ctx, at, pods, v1alpha1.OperationDelete, &s)
	})
}

func (f *deleteFlags) podsOf(ctx context.Context, at place, namespace string, names []string) (pods []corev1.Pod, err error) {
	for _, name := range names {
		pod, err := at.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read pod %s/%s from cell %q: %w", namespace, name, at.Cell, err)
		}
		pods = append(pods, *pod)
	}
	if len(names) > 0 {
		return pods, nil
	}
	list, err := at.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: f.selector})
	if err != nil {
		return nil, fmt.Errorf("list pods of namespace %q: %w", namespace, err)
	}
	return list.Items, nil
}

// deleted is the predicted effect on floors. It is the stable form of -o json and -o yaml.
type deleted struct {
	What   string `json:"what"`
	Core   string `json:"core,omitempty"`
	Passes bool   `json:"passes"`
	deletion.Foresight
	Notes []string `json:"notes,omitempty"`
}

// runObjects simulates the deletion of objects from the core cluster.
func (f *deleteFlags) runObjects(ctx context.Context, arguments []string) error {
	if err := f.output.check(); err != nil {
		return err
	}
	cores, err := f.clusters.Cores(ctx)
	if err != nil {
		return err
	}
	if len(cores) != 1 {
		return errors.New("one core cluster at a time: give --core-context or --core-kubeconfig in place of several --core")
	}
	targets, notes, err := f.targets(cores[0], arguments)
	if err != nil {
		return err
	}
	reader := newDeletionReader(cores[0], targets, f.now())
	world, err := reader.read(ctx)
	if err != nil {
		return err
	}
	d := deleted{What: f.what(arguments), Core: cores[0].Name, Foresight: deletion.Foresee(world, targets), Notes: append(notes, reader.notes...)}
	d.Passes = d.Foresight.Passes()
	coloured := f.coloured(f.Out)
	if err := write(&f.output, f.Out, d, func(d deleted) string { return deletionText(&d, f.wide(), coloured) }); err != nil {
		return err
	}
	if !d.Passes {
		return exitError{2, fmt.Errorf("%s would stay in force", count(d.Held+d.Refused, "floor"))}
	}
	return nil
}

func (f *deleteFlags) what(arguments []string) string {
	text := "deletion of " + strings.Join(arguments, " ")
	switch {
	case f.selector != "":
		text += " with " + f.selector
	case f.everything:
		text += ", all of them"
	}
	if f.allNamespaces {
		text += " in all namespaces"
	}
	return text
}

// onlyNamespace returns the namespace of all targets, where a Namespace counts as its own. It is empty if there are several, or if a
// target has none.
func onlyNamespace(targets []*rootguard.Object) (only string) {
	for _, o := range targets {
		namespace := namespaceOf(o)
		if namespace == "" || only != "" && only != namespace {
			return ""
		}
		only = namespace
	}
	return only
}
