// Command kubectl-breakwater is the kubectl plugin kubectl breakwater. It shows on-call engineers what Breakwater denies, whether that
// is correct, and what to do.
package main

import (
	"os"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/breakwater-k8s/breakwater/internal/cli"
)

func main() {
	root := rootCommand(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	root.SetArgs(arguments(os.Args))
	cli.Run(root)
}
