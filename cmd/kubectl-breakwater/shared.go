package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/cli/commands"
)

// hereCluster is the current context, for commands that breakwater and the plugin share.
type hereCluster struct{ *clusterFinder }

// Config implements commands.Cluster, like the following methods.
func (c hereCluster) Config(context.Context, string) (*rest.Config, error) { return c.Here() }

// Given returns the value of --namespace.
func (c hereCluster) Given() string { return *c.here.Namespace }

// Named reports whether a flag selects the cluster.
func (c hereCluster) Named() bool { return *c.here.KubeConfig != "" || *c.here.Context != "" }

// coreCluster is the only core cluster.
type coreCluster struct{ hereCluster }

// Config returns the client configuration of the core.
func (c coreCluster) Config(ctx context.Context, _ string) (*rest.Config, error) {
	cores, err := c.Cores(ctx)
	if err != nil {
		return nil, err
	}
	if len(cores) != 1 {
		return nil, errors.New("one core cluster at a time: give --core-context or --core-kubeconfig in place of several --core")
	}
	return cores[0].Config, nil
}

func convertCommand(p *plugin) *cobra.Command {
	return commands.Convert("kubectl breakwater", hereCluster{p.clusters})
}

func releaseCommand(p *plugin) *cobra.Command {
	return commands.Release("kubectl breakwater", coreCluster{hereCluster{p.clusters}})
}
