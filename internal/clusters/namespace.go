package clusters

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
)

// Namespace returns the namespace that the connection's context names, or that of the pod that this process runs in. The default is
// "default".
func (c Connection) Namespace() (string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	switch c.Kubeconfig {
	case "":
	case InCluster:
		rules = &clientcmd.ClientConfigLoadingRules{}
	default:
		rules.ExplicitPath = c.Kubeconfig
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.Context}
	namespace, _, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).Namespace()
	if err != nil {
		return "", fmt.Errorf("find the namespace of the kubeconfig's context: %w", err)
	}
	return namespace, nil
}
