// Package commands has the commands that breakwater and kubectl breakwater have in common. Who offers one says how a cluster is reached.
package commands

import (
	"context"

	"k8s.io/client-go/rest"
)

// Cluster is the one that a command is about, as flags or the user's kubeconfig say.
type Cluster interface {
	// Config is the way there. A component tells the apiserver who asks.
	Config(ctx context.Context, component string) (*rest.Config, error)
	// Given is the namespace that a flag names; empty if none does.
	Given() string
	// Namespace is that, or else the one of the kubeconfig's context.
	Namespace() (string, error)
	// Named tells whether a flag says which cluster it is.
	Named() bool
}

// warned is an error of something that was told as a warning.
type warned struct{ error }

// ExitCode is what a program exits with.
func (warned) ExitCode() int { return ExitWarned }
