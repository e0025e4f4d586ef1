package main

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

func rootCommand(streams genericiooptions.IOStreams) *cobra.Command {
	p := newPlugin(streams)
	root := &cobra.Command{
		Use:   "kubectl-breakwater",
		Short: "Show what Breakwater protects and denies, and why",
		Long: `Shows what Breakwater protects and denies, checks whether it works, and reports remedies.

The plugin reads protectors and Cells from the core cluster: --core-context, --core-kubeconfig, or --core NAME=KUBECONFIG for each of several; or else the
current context if it serves them. From the context of a worker, it uses the context of your kubeconfig that leads to the core that ConfigMap
breakwater-core of the worker names, or that has a Cell for the worker, and says which. It reads pods from the cluster of their cell: --cell-context
CELL=CONTEXT, or the current context if its API server calls Breakwater for that cell, or else the kubeconfig in the Cell's Secret, if you may read it.`,
		Version:           version.String(),
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl breakwater"},
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(running *cobra.Command, _ []string) error { return p.prepare(running) },
	}
	root.SetIn(streams.In)
	root.SetOut(p.Out)
	root.SetErr(p.ErrOut)
	p.bind(root)
	root.AddCommand(
		adoptCommand(p),
		cellsCommand(p),
		checkCommand(p),
		consoleCommand(p),
		convertCommand(p),
		denialsCommand(p),
		doctorCommand(p),
		drainPlanCommand(p),
		explainCommand(p),
		forceCommand(p),
		nodeCommand(p),
		cli.ReferenceCommand(),
		releaseCommand(p),
		statusCommand(p),
		cli.VersionCommand(),
		watchCommand(p),
	)
	return root
}
