package release

import (
	"context"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a kubeconfig with a token of a ServiceAccount, like the token that its pods have, into a folder, and returns its path.
func WriteKubeconfig(ctx context.Context, admin *rest.Config, namespace, account, folder string) (string, error) {
	clientset, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return "", err
	}
	token, err := clientset.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	const name = "main"
	path := filepath.Join(folder, namespace+"-"+account+".kubeconfig")
	return path, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: admin.Host, TLSServerName: admin.ServerName, CertificateAuthorityData: admin.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, path)
}
