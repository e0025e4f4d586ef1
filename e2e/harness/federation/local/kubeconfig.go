package local

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/pki"
)

// restConfig returns the client configuration of a user certificate. It has no client-side rate limit.
func restConfig(address, serverName string, ca []byte, user pki.Pair) *rest.Config {
	return &rest.Config{
		Host: "https://" + address,
		QPS:  -1,
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: serverName,
			CAData:     ca,
			CertData:   user.Certificate,
			KeyData:    user.Key,
		},
	}
}

func writeKubeconfig(file string, config *clientcmdapi.Config) error {
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return nil
}
