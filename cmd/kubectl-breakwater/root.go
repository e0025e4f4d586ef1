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
		Short: "See what Breakwater protects and refuses, and why",
		Long: `Tells what Breakwater protects and refuses, whether it is right, and what to do.

Protectors and Cells are read from the core cluster: the current context, if that serves them, or --core-context, --core-kubeconfig or
--core NAME=KUBECONFIG for each of several. Pods are read from the cluster of their cell: --cell-context CELL=CONTEXT, or the current
context if its apiserver asks Breakwater about that cell, or else the kubeconfig of the Cell's Secret, if you may read it.`,
		Version:       version.String(),
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl breakwater"},
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return p.check()
		},
	}
	root.SetIn(streams.In)
	root.SetOut(p.Out)
	root.SetErr(p.ErrOut)
	p.bind(root)
	root.AddCommand(
		cellsCommand(p),
		convertCommand(p),
		denialsCommand(p),
		doctorCommand(p),
		drainPlanCommand(p),
		explainCommand(p),
		forceCommand(p),
		cli.ReferenceCommand(),
		releaseCommand(p),
		simulateCommand(p),
		statusCommand(p),
		watchCommand(p),
	)
	return root
}
