package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

// ExitError is an error with its own exit code. Every other error exits with 1.
type ExitError struct {
	Code int
	Err  error
}

func (e ExitError) Error() string { return e.Err.Error() }

// Run runs a program until it ends or receives SIGINT or SIGTERM, and exits.
func Run(root *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := ExitCode(ctx, root)
	stop()
	os.Exit(code)
}

// ExitCode runs a program and returns its exit code. It writes the error that ends the program to the error stream of root, so that the error passes
// the same writer as all other messages.
func ExitCode(ctx context.Context, root *cobra.Command) int {
	root.SetFlagErrorFunc(suggestFlag)
	fitHelpOf(root)
	err := execute(ctx, root)
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintf(root.ErrOrStderr(), "%s: %s\n", root.CommandPath(), printable.Text(err.Error()))
	var exit ExitError
	if errors.As(err, &exit) {
		return exit.Code
	}
	return 1
}

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
