package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain/live"
)

type explainFlags struct {
	*plugin
	output
	operation string
	cell      string
	ask       bool
}

func explainCommand(p *plugin) *cobra.Command {
	f := &explainFlags{plugin: p}
	command := &cobra.Command{
		Use:   "explain pod/NAME [--operation delete|evict|update|resize|relabel] [--cell NAME] [--ask]",
		Short: "Explain why a removal of a pod is refused or not, and what would have to change",
		Long: `Tells what the webhook would answer now if the pod were deleted, evicted, updated, resized or relabelled, and its very message: who is asked, whether the
pod counts, each protector's arithmetic, and what would let the pod go.

It reads the pod from the cluster of its cell, and protectors and Cells from the core, and decides by the code that the webhook decides by. What
webhooks alone know is left out: protectors that vanished without release, and cores that do not answer them. With --ask it also sends the
apiserver a dry run, which changes nothing, and tells whether both answers agree.

An update or resize is taken for one that restarts the pod's first container. With --ask that is another image, which needs the right to patch
pods; a resize asks for half as much of a resource for which a container is restarted. A relabel is taken for one that takes the pod out of
the coverage of all protectors; with --ask it takes all labels off the pod.

The exit code is 0 if the pod may go, 2 if it would be refused, and 3 if the answers of --ask differ.`,
		Example: `  kubectl breakwater explain pod/web-0 -n shop
  kubectl breakwater explain pod/web-0 -n shop --operation evict --ask --context worker-1 --core-context hub`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: p.completePods,
		RunE: func(command *cobra.Command, arguments []string) error {
			name, err := podNamed(arguments)
			if err != nil {
				return err
			}
			return f.run(command.Context(), name)
		},
	}
	f.output.bind(command)
	flags := command.Flags()
	flags.StringVar(&f.operation, "operation", "delete", "`what` is done to the pod: delete, evict, update, resize or relabel")
	flags.BoolVar(&f.ask, "ask", false, "also ask the apiserver, by a dry run")
	p.bindCell(command, &f.cell)
	_ = command.RegisterFlagCompletionFunc("operation", cobra.FixedCompletions([]string{"delete", "evict", "update", "resize", "relabel"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// bindCell adds the flag --cell to a command.
func (p *plugin) bindCell(command *cobra.Command, cell *string) {
	command.Flags().StringVar(cell, "cell", "", "`name` of the Cell that the pods are in; empty: that of the current context")
	_ = command.RegisterFlagCompletionFunc("cell", p.completeCells)
}

// completePods completes pod/NAME from the pods of the current context.
func (p *plugin) completePods(command *cobra.Command, had []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := p.clusters.Here()
	namespace, unknown := p.clusters.Namespace()
	if len(had) > 0 || err != nil || unknown != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(command.Context(), completeTime)
	defer cancel()
	at, err := live.NewCluster("here", config)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := at.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for i := range list.Items {
		names = append(names, "pod/"+list.Items[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// podNamed parses pod/NAME, or pod NAME.
func podNamed(arguments []string) (string, error) {
	text := strings.Join(arguments, "/")
	name, err := podKinds.named(text)
	if err != nil || !strings.Contains(text, "/") { // a bare name is ambiguous
		return "", fmt.Errorf("%q: want pod/NAME", strings.Join(arguments, " "))
	}
	return name, nil
}

func operationNamed(text string) (v1alpha1.Operation, error) {
	for _, operation := range []v1alpha1.Operation{
		v1alpha1.OperationDelete, v1alpha1.OperationEvict, v1alpha1.OperationUpdate, v1alpha1.OperationResize, v1alpha1.OperationRelabel,
	} {
		if strings.EqualFold(text, string(operation)) {
			return operation, nil
		}
	}
	return "", fmt.Errorf("--operation %q: want delete, evict, update, resize or relabel", text)
}

func (f *explainFlags) run(ctx context.Context, name string) error {
	operation, err := operationNamed(f.operation)
	if err := errors.Join(err, f.output.check()); err != nil {
		return err
	}
	namespace, err := f.clusters.Namespace()
	if err != nil {
		return err
	}
	at, err := f.place(ctx, f.cell)
	if err != nil {
		return err
	}
	situation, notes, err := live.Pod(ctx, at.cores, at.Cluster, namespace, name, operation)
	if err != nil {
		return failure(at.config, err)
	}
	e := explain.Pod(situation)
	e.Notes = append(notes, e.Notes...)
	if f.ask {
		if err := live.Compare(&e, at.Ask(ctx, namespace, name, operation)); err != nil {
			return failure(at.config, err)
		}
	}
	coloured := f.coloured(f.Out)
	if err := write(&f.output, f.Out, e, func(e explain.Explanation) string { return explained(e, f.wide(), coloured) }); err != nil {
		return err
	}
	switch {
	case e.Answer != nil && !e.Answer.Agrees:
		return exitError{3, errors.New("the apiserver's answer is another than the explained one")}
	case e.Answer != nil && e.Answer.OfBudget:
		return exitError{2, fmt.Errorf("a PodDisruptionBudget refuses to evict pod %s/%s", namespace, name)}
	case !e.Goes():
		return exitError{2, fmt.Errorf("pod %s/%s would be refused", namespace, name)}
	}
	return nil
}

// place is a cell's cluster and the cores that protect its pods.
type place struct {
	*live.Cluster
	cores  []live.Core
	config *rest.Config
}

// place returns the named cell, or else the cell of the current context.
func (p *plugin) place(ctx context.Context, cell string) (place, error) {
	cores, err := p.clusters.Cores(ctx)
	if err != nil {
		return place{}, err
	}
	found, err := cellCluster{}, error(nil)
	if cell == "" {
		found, err = p.clusters.CellHere(ctx)
	} else {
		found, err = p.clusters.Cell(ctx, cell, cores)
	}
	if err != nil {
		return place{}, err
	}
	at := place{config: found.Config}
	for _, core := range cores {
		// This is the chart's default name of the only core (core.name).
		at.cores = append(at.cores, live.Core{Name: cmp.Or(core.Name, "core"), Reader: core})
	}
	at.Cluster, err = live.NewCluster(found.Cell, found.Config)
	return at, err
}
