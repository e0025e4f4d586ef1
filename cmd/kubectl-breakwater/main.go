// Command kubectl-breakwater is the kubectl plugin kubectl breakwater. It shows on-call engineers what Breakwater denies, whether that
// is correct, and what to do.
package main

import (
	"os"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/breakwater-k8s/breakwater/internal/cli"
)

// exitError is an error with its own exit code. Every other error exits with 1.
type exitError struct {
	code int
	error
}

// ExitCode returns the exit code.
func (e exitError) ExitCode() int { return e.code }

func main() {
	root := rootCommand(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	root.SetArgs(arguments(os.Args))
	cli.Run(root)
}
