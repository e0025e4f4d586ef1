package kind_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/breakwater-k8s/breakwater/internal/federation"
	"github.com/breakwater-k8s/breakwater/internal/federation/kind"
)

// join lets the components of each core into the workers, and those of each worker into the cores, with the rights of the
// ServiceAccounts that the charts have made for that.
func (r *releases) join(t *testing.T) {
	t.Helper()
	for _, core := range r.kind.Cores() {
		for _, worker := range r.kind.Workers() {
			if core.Name() == worker.Name() {
				continue
			}
			r.let(t, core, worker, "cell-"+worker.Name())
			r.let(t, worker, core, "core-"+core.Name())
		}
	}
}

// let gives who a Secret with a kubeconfig that leads into where.
func (r *releases) let(t *testing.T, who, where federation.Cluster, secret string) {
	t.Helper()
	there, err := kubernetes.NewForConfig(where.RESTConfig())
	must(t, err)
	day := int64(24 * 60 * 60)
	token, err := there.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), full+"-access",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}, metav1.CreateOptions{})
	must(t, err)
	config := clientcmdapi.NewConfig()
	config.Clusters[where.Name()] = &clientcmdapi.Cluster{
		Server: where.(*kind.Cluster).InternalServer(), CertificateAuthorityData: where.RESTConfig().CAData,
	}
	config.AuthInfos[full] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts[where.Name()] = &clientcmdapi.Context{Cluster: where.Name(), AuthInfo: full}
	config.CurrentContext = where.Name()
	raw, err := clientcmd.Write(*config)
	must(t, err)
	here, err := kubernetes.NewForConfig(who.RESTConfig())
	must(t, err)
	_, err = here.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secret}, Data: map[string][]byte{"kubeconfig": raw},
	}, metav1.CreateOptions{})
	must(t, err)
}
