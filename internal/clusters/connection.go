// Package clusters turns what users say of clusters into connections to them.
package clusters

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

// InCluster stands in the place of a kubeconfig's path for the ServiceAccount of the pod that we run in.
const InCluster = "in-cluster"

// Connection says how to reach one cluster.
type Connection struct {
	// Kubeconfig is the path of a kubeconfig, or InCluster. Empty means what kubectl would use: KUBECONFIG,
	// then ~/.kube/config, then the pod's ServiceAccount.
	Kubeconfig string
	// Context is a context of that kubeconfig; empty means its current one.
	Context string
	// As and AsGroups impersonate a user; empty means nobody.
	As       string
	AsGroups []string
}

// Config returns the client configuration of the connection, for a component by that name. It has no rate
// limit of the client's own: a deletion storm is the moment at which we must not wait for ourselves.
func (c Connection) Config(component string) (*rest.Config, error) {
	config, err := c.load()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.UserAgent = fmt.Sprintf("breakwater-%s/%s", component, version.String())
	if c.As != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: c.As, Groups: c.AsGroups}
	} else if len(c.AsGroups) > 0 {
		return nil, errors.New("groups to impersonate need a user to impersonate")
	}
	return config, nil
}

func (c Connection) load() (*rest.Config, error) {
	if c.Kubeconfig == InCluster {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("in-cluster configuration: %w", err)
		}
		return config, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.Context}
	if c.Kubeconfig == "" {
		config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("load the kubeconfig of KUBECONFIG or ~/.kube/config: %w", err)
		}
		return config, nil
	}
	// A deferred configuration would take the pod's own cluster in the place of a file that names none.
	rules.ExplicitPath = c.Kubeconfig
	file, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig %q: %w", c.Kubeconfig, err)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*file, c.Context, overrides, rules).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("kubeconfig %q says of no cluster how to reach it: it is empty, or its context names a cluster that it does not have", c.Kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %q: %w", c.Kubeconfig, err)
	}
	return config, nil
}

// ParseNamed reads NAME=KUBECONFIG, as --core and --cell take it.
func ParseNamed(argument string) (name string, connection Connection, err error) {
	name, kubeconfig, found := strings.Cut(argument, "=")
	if !found || name == "" || kubeconfig == "" {
		return "", Connection{}, fmt.Errorf("%q is not NAME=KUBECONFIG (or NAME=%s)", argument, InCluster)
	}
	return name, Connection{Kubeconfig: kubeconfig}, nil
}
