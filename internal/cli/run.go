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

// Run runs a program until it ends or receives SIGINT or SIGTERM.
func Run(root *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	root.SetFlagErrorFunc(suggestFlag)
	err := execute(ctx, root)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", root.CommandPath(), printable.Text(err.Error()))
	var exit ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.Code)
	}
	os.Exit(1)
}
