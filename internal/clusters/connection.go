// Package clusters creates connections to clusters from the configuration of the user, and follows their Cells and protectors.
package clusters

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

// InCluster replaces the path of a kubeconfig, to use the ServiceAccount of the pod that this process runs in.
const InCluster = "in-cluster"

// Connection specifies how to reach one cluster.
type Connection struct {
	// Kubeconfig is the path of a kubeconfig, or InCluster. Empty means the default of kubectl: KUBECONFIG,
	// then ~/.kube/config, then the pod's ServiceAccount.
	Kubeconfig string
	// Context is a context of that kubeconfig; empty means its current context.
	Context string
	// As and AsGroups impersonate a user; empty means no impersonation.
	As       string
	AsGroups []string
}

// Config returns the client configuration of the connection, for the component of the given name. It disables the rate limit of client-go,
// because in a deletion storm the process must not delay its own requests.
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

// ContextName returns the name of the connection's context; empty if it has none.
func (c Connection) ContextName() string {
	if c.Context != "" || c.Kubeconfig == InCluster {
		return c.Context
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	file, err := rules.Load()
	if err != nil {
		return ""
	}
	return file.CurrentContext
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
	// A deferred configuration would use the pod's own cluster instead of a file that names no cluster.
	rules.ExplicitPath = c.Kubeconfig
	file, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig %q: %w", c.Kubeconfig, err)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*file, c.Context, overrides, rules).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("kubeconfig %q has no cluster address: it is empty, or its context names a cluster that it does not define", c.Kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %q: %w", c.Kubeconfig, err)
	}
	return config, nil
}

// ParseNamed parses NAME=KUBECONFIG, the argument of --core and --cell.
func ParseNamed(argument string) (name string, connection Connection, err error) {
	name, kubeconfig, found := strings.Cut(argument, "=")
	if !found || name == "" || kubeconfig == "" {
		return "", Connection{}, fmt.Errorf("%q is not NAME=KUBECONFIG (or NAME=%s)", argument, InCluster)
	}
	return name, Connection{Kubeconfig: kubeconfig}, nil
}
