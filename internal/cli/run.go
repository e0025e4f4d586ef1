package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// Run runs a program until it ends or receives SIGINT or SIGTERM. After an error it exits with 1, or with the code that the error's
// method ExitCode returns.
func Run(root *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	root.SetFlagErrorFunc(suggestFlag)
	err := root.ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", root.CommandPath(), printable.Text(err.Error()))
	var exit interface{ ExitCode() int }
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	os.Exit(1)
}
