package kind_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/pki"
)

// ownSecret is the Secret with the certificate of a user who creates it without Breakwater's help.
const ownSecret = "own-certificate"

// ownCertificate creates a certificate of the webhook in a cluster, and returns the CA that signed it, in PEM.
func ownCertificate(t *testing.T, cluster federation.Cluster) string {
	t.Helper()
	authority, err := pki.NewAuthority("a user's own CA")
	noError(t, err)
	host := fullName + "-webhook." + namespace + ".svc"
	pair, err := authority.Server(host, nil, host)
	noError(t, err)
	clients, err := kubernetes.NewForConfig(cluster.RESTConfig())
	noError(t, err)
	_, err = clients.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	noError(t, err)
	_, err = clients.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: ownSecret}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key, "ca.crt": authority.PEM},
	}, metav1.CreateOptions{})
	noError(t, err)
	return string(authority.PEM)
}
