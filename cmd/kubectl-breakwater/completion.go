package main

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

// arguments returns the arguments of a command line. kubectl runs a program named kubectl_complete-breakwater to complete the arguments
// of the plugin. If the plugin runs under that name, arguments adds the completion command.
func arguments(line []string) []string {
	name := strings.TrimSuffix(filepath.Base(line[0]), ".exe")
	if name == "kubectl_complete-breakwater" {
		return append([]string{cobra.ShellCompRequestCmd}, line[1:]...)
	}
	return line[1:]
}

// completeFrom completes names from a list of objects of all cores. It ignores errors.
func (p *plugin) completeFrom(command *cobra.Command, list func(context.Context, core) ([]string, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx := command.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	cores, err := p.clusters.Cores(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, core := range cores {
		some, err := list(ctx, core)
		if err == nil {
			names = append(names, some...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}

// completeProtectors completes the only name that a command accepts.
func (p *plugin) completeProtectors(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.completeFrom(command, func(ctx context.Context, core core) ([]string, error) {
		namespace, err := p.clusters.Namespace()
		if err != nil {
			return nil, err
		}
		return listNames(ctx, core, &v1alpha1.PodProtectorList{}, client.InNamespace(namespace))
	})
}

func (p *plugin) completeCells(command *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.completeFrom(command, func(ctx context.Context, core core) ([]string, error) {
		return listNames(ctx, core, &v1alpha1.CellList{})
	})
}

func (p *plugin) completeNamespaces(command *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.completeFrom(command, func(ctx context.Context, core core) ([]string, error) {
		return listNames(ctx, core, &corev1.NamespaceList{})
	})
}

func listNames(ctx context.Context, c core, list client.ObjectList, options ...client.ListOption) (names []string, err error) {
	if err := c.List(ctx, list, options...); err != nil {
		return nil, err
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		names = append(names, item.(client.Object).GetName())
		return nil
	})
	return names, err
}

func (p *plugin) completeContexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	file, err := p.clusters.current.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(file.Contexts)), cobra.ShellCompDirectiveNoFileComp
}
