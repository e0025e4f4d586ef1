package plugin

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

const completionTimeout = 3 * time.Second

// Arguments returns the arguments of a command line. kubectl runs a program named kubectl_complete-breakwater to complete the arguments
// of the plugin. If the plugin runs under that name, arguments adds the completion command.
func Arguments(line []string) []string {
	name := strings.TrimSuffix(filepath.Base(line[0]), ".exe")
	if name == "kubectl_complete-breakwater" {
		return append([]string{cobra.ShellCompRequestCmd}, line[1:]...)
	}
	return line[1:]
}

// completeNames completes, from the lists of some clusters, the names of objects of a kind. It ignores errors.
func (p *Plugin) completeNames(in func(context.Context) ([]Core, error), kind client.ObjectList, options ...client.ListOption) []cobra.Completion {
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	cores, _ := in(ctx)
	var names []string
	for _, core := range cores {
		list := kind.DeepCopyObject().(client.ObjectList)
		if core.List(ctx, list, options...) == nil {
			_ = meta.EachListItem(list, func(item runtime.Object) error {
				names = append(names, item.(client.Object).GetName())
				return nil
			})
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// completeProtectors completes the only name that a command accepts.
func (p *Plugin) completeProtectors(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	namespace, err := p.Clusters.Namespace()
	if len(args) > 0 || err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.completeNames(p.Clusters.Cores, &v1alpha1.PodProtectorList{}, client.InNamespace(namespace)), cobra.ShellCompDirectiveNoFileComp
}

// CompleteCells completes the names of Cells.
func (p *Plugin) CompleteCells(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.completeNames(p.Clusters.Cores, &v1alpha1.CellList{}), cobra.ShellCompDirectiveNoFileComp
}

func (p *Plugin) completeNamespaces(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.completeNames(p.Clusters.Cores, &corev1.NamespaceList{}), cobra.ShellCompDirectiveNoFileComp
}

// CompletePods completes pod/NAME from the pods of the current context.
func (p *Plugin) CompletePods(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	namespace, err := p.Clusters.Namespace()
	if len(args) > 0 || err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	here := func(context.Context) ([]Core, error) {
		config, err := p.Clusters.CurrentConfig()
		if err != nil {
			return nil, err
		}
		return onlyCore(config)
	}
	names := p.completeNames(here, &corev1.PodList{}, client.InNamespace(namespace))
	for i := range names {
		names[i] = "pod/" + names[i]
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (p *Plugin) completeContexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	file, err := p.Clusters.current.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(file.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// BindCell adds the flag --cell to a command.
func (p *Plugin) BindCell(command *cobra.Command, cell *string) {
	command.Flags().StringVar(cell, "cell", "", "`name` of the Cell of the pods; empty: the cell of the current context")
	_ = command.RegisterFlagCompletionFunc("cell", p.CompleteCells)
}
