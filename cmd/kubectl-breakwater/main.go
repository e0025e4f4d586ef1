// Command kubectl-breakwater is the kubectl plugin kubectl breakwater. It shows on-call engineers what Breakwater denies, whether that
// is correct, and what to do.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
	"github.com/breakwater-k8s/breakwater/internal/plugin/adopt"
	"github.com/breakwater-k8s/breakwater/internal/plugin/console"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor"
	"github.com/breakwater-k8s/breakwater/internal/plugin/drain"
	"github.com/breakwater-k8s/breakwater/internal/plugin/explain"
	"github.com/breakwater-k8s/breakwater/internal/plugin/node"
	"github.com/breakwater-k8s/breakwater/internal/plugin/status"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

func main() {
	root := rootCommand(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	root.SetArgs(plugin.Arguments(os.Args))
	cli.Run(root)
}

func rootCommand(streams genericiooptions.IOStreams) *cobra.Command {
	p := plugin.New(streams)
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
		PersistentPreRunE: func(running *cobra.Command, _ []string) error { return p.Prepare(running) },
	}
	root.SetIn(streams.In)
	root.SetOut(p.Out)
	root.SetErr(p.ErrOut)
	p.Bind(root)
	root.AddCommand(
		adopt.Command(p),
		status.CellsCommand(p),
		doctor.CheckCommand(p),
		console.Command(p),
		plugin.ConvertCommand(p),
		status.DenialsCommand(p),
		doctor.Command(p),
		drain.Command(p),
		explain.Command(p),
		explain.ForceCommand(p),
		node.Command(p),
		cli.ReferenceCommand(),
		plugin.ReleaseCommand(p),
		status.Command(p),
		cli.VersionCommand(),
		status.WatchCommand(p),
	)
	return root
}
