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
