// Command kubectl-breakwater is kubectl breakwater: it tells the engineer on call what Breakwater refuses, whether it is right, and what
// to do.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// exitError is an error whose exit code means something; every other error exits with 1.
type exitError struct {
	code int
	error
}

// ExitCode is what to exit with.
func (e exitError) ExitCode() int { return e.code }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	root := rootCommand(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	root.SetArgs(arguments(os.Args))
	err := root.ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "kubectl breakwater:", err)
	var exit interface{ ExitCode() int }
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	os.Exit(1)
}
