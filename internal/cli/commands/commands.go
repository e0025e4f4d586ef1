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
	// NamespaceFlag returns the namespace flag; empty if not set.
	NamespaceFlag() string
	// Namespace returns the namespace flag, or else the namespace of the kubeconfig's context.
	Namespace() (string, error)
	// IsSelected reports whether a flag selects the cluster.
	IsSelected() bool
}
