// Command kubectl-breakwater is kubectl breakwater: it tells the engineer on call what Breakwater refuses, whether it is right, and what
// to do.
package main

import (
	"os"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/breakwater-k8s/breakwater/internal/cli"
)

// exitError is an error whose exit code means something; every other error exits with 1.
type exitError struct {
	code int
	error
}

// ExitCode is what to exit with.
func (e exitError) ExitCode() int { return e.code }

func main() {
	root := rootCommand(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	root.SetArgs(arguments(os.Args))
	cli.Run(root)
}
