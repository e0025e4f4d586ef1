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
	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/core/deletion"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
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
		Short: "Like kubectl delete: pods in a cell, or objects in the core cluster that floors depend on",
		Long: `Without a type, or for pods, the command simulates the removal of pods from a cell, like the other commands.

For any other type it predicts the effect on the PodProtectors that depend on the objects, if you deleted the objects from the core cluster:

  Released  the floor ends: at once if a user confirmed it, or after the quiet period
  Held      the deletion succeeds, and the release brake keeps the floor in force: too many large decreases at once, or a cascade
  Refused   the root guard denies the deletion
  Kept      the floor stays in force, because the deletion does not request its release

The types are workloads, namespaces, CustomResourceDefinitions, owners of workloads, podprotectors, protectionpolicies,
clusterprotectionpolicies, cells, and all others that the core cluster serves. The simulation assumes that one user requests all deletions at
the same time. It decides with the code of the generator and of the webhook. It reads their flags from their Deployments in the core cluster.

The exit code is 0 if no floor would be held and no deletion denied, and 2 otherwise.`,
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
				return errors.New("--cell and --replacements-ready-after are only for pods: other objects are deleted from the core cluster")
			}
			return of.runObjects(command.Context(), arguments)
		},
	}, true)
	flags := command.Flags()
	flags.StringVarP(&of.selector, "selector", "l", "", "`labels` of the objects, such as app=web")
	flags.BoolVar(&of.everything, "all", false, "all objects of the type in the namespace")
	flags.BoolVarP(&of.allNamespaces, "all-namespaces", "A", false, "objects of all namespaces")
	return command
}

// podArguments returns the names of pods. ofPods reports whether the arguments are about pods; this is true without arguments.
func podArguments(arguments []string) (names []string, ofPods bool, err error) {
	if len(arguments) == 0 {
		return nil, true, nil
	}
	if kind, _, _ := strings.Cut(strings.ToLower(arguments[0]), "."); slices.Contains(podResource, kind) {
		return arguments[1:], true, nil
	}
	for _, argument := range arguments {
		kind, name := splitTypeName(argument)
		if slices.Contains(podResource, kind) {
			names = append(names, name)
		}
	}
	if len(names) > 0 && len(names) < len(arguments) {
		return nil, false, errors.New("pods are removed from a cell, other objects from the core cluster: simulate them in separate commands")
	}
	return names, len(names) > 0, nil
}

// runPods simulates the removal of the named pods, or of those that the flags select.
func (f *deleteFlags) runPods(ctx context.Context, names []string) error {
	what := "deletion of pods with " + f.selector
	switch {
	case f.allNamespaces:
		return errors.New("-A is not for pods: select a namespace with -n")
	case len(names) > 0 && (f.selector != "" || f.everything), f.selector != "" && f.everything:
		return errors.New("set only one of names, -l and --all")
	case len(names) > 0:
		what = "deletion of pods " + strings.Join(names, ", ")
	case f.everything:
		what = "deletion of all pods"
	case f.selector == "":
		return errors.New("-l is required to select pods; or name another type, such as deployment web")
	}
	return f.run(ctx, what, func(ctx context.Context, at cellAccess) (s simulationResult, err error) {
		namespace, err := f.clusters.Namespace()
		if err != nil {
			return s, err
		}
		pods, err := f.podsOf(ctx, at, namespace, names)
		if err != nil {
			return s, withRemedy(at.config, err)
		}
		return s, f.simulateRemovals(ctx, at, pods, v1alpha1.OperationDelete, &s)
	})
}

func (f *deleteFlags) podsOf(ctx context.Context, at cellAccess, namespace string, names []string) (pods []corev1.Pod, err error) {
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

// predictedDeletion is the predicted effect on floors. It is the stable form of -o json and -o yaml.
type predictedDeletion struct {
	What   string `json:"what"`
	Core   string `json:"core,omitempty"`
	Passes bool   `json:"passes"`
	deletion.Forecast
	Notes []string `json:"notes,omitempty"`
}

// runObjects simulates the deletion of objects from the core cluster.
func (f *deleteFlags) runObjects(ctx context.Context, arguments []string) error {
	if err := f.check(); err != nil {
		return err
	}
	cores, err := f.clusters.Cores(ctx)
	if err != nil {
		return err
	}
	if len(cores) != 1 {
		return errors.New("only one core cluster at a time: set --core-context or --core-kubeconfig instead of several --core")
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
	d := predictedDeletion{What: f.what(arguments), Core: cores[0].Name, Forecast: deletion.Predict(world, targets), Notes: append(notes, reader.notes...)}
	d.Passes = d.HasNoDenials()
	coloured := f.coloured(f.Out)
	if err := write(&f.output, f.Out, d, func(d predictedDeletion) string { return deletionText(&d, f.wide(), coloured) }); err != nil {
		return err
	}
	if !d.Passes {
		return cli.ExitError{Code: 2, Err: fmt.Errorf("%s would stay in force", printable.Count(d.Held+d.Refused, "floor"))}
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

// commonNamespace returns the namespace of all targets, where a Namespace counts as its own. It is empty if there are several, or if a
// target has none.
func commonNamespace(targets []*rootguard.Object) (common string) {
	for _, o := range targets {
		namespace := namespaceOf(o)
		if namespace == "" || common != "" && common != namespace {
			return ""
		}
		common = namespace
	}
	return common
}
