package main

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

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

// namedConfigs reads the NAME=KUBECONFIG values of a flag, for a component by that name, as whom as says. The followers must run
// beside what goes by the configurations.
func namedConfigs(flag string, arguments []string, as fleet.Connection, component string) (map[string]*rest.Config, []*fleet.Follower, error) {
	configs, followers := map[string]*rest.Config{}, []*fleet.Follower(nil)
	for _, argument := range arguments {
		name, connection, err := fleet.ParseNamed(argument)
		if err != nil {
			return nil, nil, fmt.Errorf("--%s: %w", flag, err)
		}
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return nil, nil, fmt.Errorf("--%s %s: %q is not a name: %s", flag, argument, name, problems[0])
		}
		if _, ok := configs[name]; ok {
			return nil, nil, fmt.Errorf("--%s %s: %q is given twice", flag, argument, name)
		}
		connection.As, connection.AsGroups = as.As, as.AsGroups
		var follower *fleet.Follower
		if configs[name], follower, err = connection.Follow(component); err != nil {
			return nil, nil, fmt.Errorf("--%s %s: %w", flag, argument, err)
		}
		followers = append(followers, follower)
	}
	return configs, followers, nil
}
