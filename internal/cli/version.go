package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

// VersionCommand creates the command version.
func VersionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this program", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(command.OutOrStdout(), "%s %s (%s %s/%s)\n",
				command.Root().CommandPath(), version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
