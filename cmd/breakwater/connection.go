package main

import (
	"github.com/spf13/pflag"

	"github.com/breakwater-k8s/breakwater/internal/fleet"
)

// bindCluster adds the flags that say how to reach a cluster, which is named in words. A prefix tells them from those of
// another.
func bindCluster(flags *pflag.FlagSet, c *fleet.Connection, prefix, cluster string) {
	flags.StringVar(&c.Kubeconfig, prefix+"kubeconfig", "", "kubeconfig `file` of "+cluster+", or in-cluster; empty: as kubectl would choose")
	flags.StringVar(&c.Context, prefix+"context", "", "`context` of --"+prefix+"kubeconfig")
}

// bindUser adds those that say as whom.
func bindUser(flags *pflag.FlagSet, c *fleet.Connection, prefix, cluster string) {
	flags.StringVar(&c.As, prefix+"as", "", "`user` to impersonate in "+cluster)
	flags.StringSliceVar(&c.AsGroups, prefix+"as-group", nil, "`group` to impersonate in "+cluster+"; may be repeated")
}
