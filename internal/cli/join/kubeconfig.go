package join

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const kubeconfigKey = "kubeconfig"

// kubeconfig returns a kubeconfig for the issuer's cluster. It contains no file references.
func (o *Options) kubeconfig(l *link, token string) ([]byte, error) {
	const user = "breakwater"
	name := o.Cell
	if l.direction == WorkerToCore {
		name = o.CoreName
	}
	raw, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: l.issuer.server, CertificateAuthorityData: l.issuer.ca, TLSServerName: l.issuer.serverName,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: user, Namespace: o.Namespace}},
		CurrentContext: name,
	})
	if err != nil {
		return nil, fmt.Errorf("write a kubeconfig of %s: %w", l.issuer.title, err)
	}
	return raw, nil
}
