package testplane

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// KubeconfigOf encodes a configuration as a kubeconfig, as users store it in a Secret.
func KubeconfigOf(t testing.TB, config *rest.Config) []byte {
	t.Helper()
	raw, err := clientcmd.Write(*federation.Kubeconfig("plane", config))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// AsServiceAccount creates a ServiceAccount in a namespace of a cluster and returns its configuration, with a token. It binds the
// account to the ClusterRole role, if role is not empty. The token becomes invalid when the ServiceAccount is deleted.
func AsServiceAccount(t testing.TB, admin *rest.Config, namespace, name, role string) *rest.Config {
	t.Helper()
	clientset := kubernetes.NewForConfigOrDie(admin)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if _, err := clientset.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if role != "" {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		}
		if _, err := clientset.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	token, err := clientset.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken, config.QPS = token.Status.Token, -1
	return config
}
