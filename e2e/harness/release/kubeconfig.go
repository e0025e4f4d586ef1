package release

import (
	"context"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
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
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = token.Status.Token
	path := filepath.Join(folder, namespace+"-"+account+".kubeconfig")
	return path, clientcmd.WriteToFile(*federation.Kubeconfig("main", config), path)
}
