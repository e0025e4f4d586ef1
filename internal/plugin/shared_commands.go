package plugin

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/cli/commands"
)

// hereCluster is the current context, for commands that breakwater and the plugin share.
type hereCluster struct{ *ClusterFinder }

// Config implements commands.Cluster, like the following methods.
func (c hereCluster) Config(context.Context, string) (*rest.Config, error) { return c.CurrentConfig() }

// NamespaceFlag returns the value of --namespace.
func (c hereCluster) NamespaceFlag() string { return *c.current.Namespace }

// IsSelected reports whether a flag selects the cluster.
func (c hereCluster) IsSelected() bool {
	return *c.current.KubeConfig != "" || *c.current.Context != ""
}

// coreCluster is the only core cluster.
type coreCluster struct{ hereCluster }

// Config returns the client configuration of the core.
func (c coreCluster) Config(ctx context.Context, _ string) (*rest.Config, error) {
	cores, err := c.Cores(ctx)
	if err != nil {
		return nil, err
	}
	if len(cores) != 1 {
		return nil, errors.New("only one core cluster at a time: set --core-context or --core-kubeconfig instead of several --core")
	}
	return cores[0].Config, nil
}

// ConvertCommand returns the command convert.
func ConvertCommand(p *Plugin) *cobra.Command {
	return commands.Convert("kubectl breakwater", hereCluster{p.Clusters})
}

// ReleaseCommand returns the command release.
func ReleaseCommand(p *Plugin) *cobra.Command {
	return commands.Release("kubectl breakwater", coreCluster{hereCluster{p.Clusters}})
}
