// Command breakwater keeps the pods of protected applications available through deletion storms. Its
// subcommands are the components of the safety loop and the tools around it.
package main

import (
	"os"

	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // images have no roots, and API servers can use a public CA

	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

func main() { cli.Run(rootCommand()) }

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "breakwater",
		Short: "Keep enough pods alive through a deletion storm",
		Long: `Breakwater keeps enough pods alive.

A PodProtector in a core cluster says how many pods of an application must stay available over all worker clusters. The
webhook denies every removal that would break this floor, the aggregators count the pods of each cell, and the generator
creates PodProtectors for workloads.`,
		Version:       version.String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(printable.Writer{To: os.Stdout})
	root.SetErr(printable.Writer{To: os.Stderr})
	root.AddCommand(
		aggregatorCommand(),
		certificatesCommand(),
		checkCommand(),
		consoleCommand(),
		convertCommand(),
		generatorCommand(),
		joinCommand(),
		releaseCommand(),
		sharderCommand(),
		topologyCommand(),
		webhookCommand(),
		webhookConfigCommand(),
		cli.ReferenceCommand(),
		cli.VersionCommand(),
	)
	return root
}
