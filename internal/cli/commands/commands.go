// Package commands contains the commands that breakwater and kubectl breakwater share. Each program provides a Cluster.
package commands

import (
	"context"

	"k8s.io/client-go/rest"
)

// Cluster is the target cluster of a command, from flags or the user's kubeconfig.
type Cluster interface {
	// Config returns the client configuration. component is part of the user agent.
	Config(ctx context.Context, component string) (*rest.Config, error)
	// Given returns the namespace flag; empty if not set.
	Given() string
	// Namespace returns the namespace flag, or else the namespace of the kubeconfig's context.
	Namespace() (string, error)
	// Named reports whether a flag selects the cluster.
	Named() bool
}

// warned is an error for something that was reported as a warning.
type warned struct{ error }

// ExitCode returns the exit code of the program.
func (warned) ExitCode() int { return ExitWarned }
