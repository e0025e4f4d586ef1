package operate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

// token is access to a cluster by a token that is bound to a Secret, like those of breakwater join.
type token struct {
	kubeconfig []byte
	// revoke deletes the Secret, and returns when the API server rejects the token.
	revoke func()
}

// issueToken requests a token of an account that may do everything.
func (n *night) issueToken(cluster federation.Cluster) token {
	n.Helper()
	clientset, err := kubernetes.NewForConfig(cluster.RESTConfig())
	n.Must(err)
	const account = "breakwater"
	api := clientset.CoreV1()
	_, err = api.ServiceAccounts(n.Namespace).Create(n.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	n.Must(ignoreExists(err))
	_, err = clientset.RbacV1().ClusterRoleBindings().Create(n.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: n.Namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: n.Namespace, Name: account}},
	}, metav1.CreateOptions{})
	n.Must(ignoreExists(err))
	secret, err := api.Secrets(n.Namespace).Create(n.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: account + "-"}}, metav1.CreateOptions{})
	n.Must(err)
	issued, err := api.ServiceAccounts(n.Namespace).CreateToken(n.Context(), account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID},
	}}, metav1.CreateOptions{})
	n.Must(err)

	file, err := clientcmd.LoadFromFile(cluster.Kubeconfig())
	n.Must(err)
	for name := range file.AuthInfos {
		file.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: issued.Status.Token}
	}
	raw, err := clientcmd.Write(*file)
	n.Must(err)
	config, err := clientcmd.RESTConfigFromKubeConfig(raw)
	n.Must(err)
	user, err := kubernetes.NewForConfig(config)
	n.Must(err)
	return token{kubeconfig: raw, revoke: func() {
		n.Helper()
		n.Must(api.Secrets(n.Namespace).Delete(n.Context(), secret.Name, metav1.DeleteOptions{}))
		n.Eventually(func() string {
			_, err := user.AuthenticationV1().SelfSubjectReviews().Create(n.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if !apierrors.IsUnauthorized(err) {
				return fmt.Sprintf("cluster %s answers to the token with %v, want Unauthorized", cluster.Name(), err)
			}
			return ""
		})
	}}
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// useTokens makes the webhooks reach the core and the worker by tokens, and the topology controller the worker.
func (n *night) useTokens(core, worker token) {
	n.Helper()
	n.useKubeconfigs(core.kubeconfig, worker.kubeconfig)
}

// useCertificates makes all components reach all clusters as before the fault.
func (n *night) useCertificates() {
	n.Helper()
	core, err := os.ReadFile(n.core.Kubeconfig())
	n.Must(err)
	worker, err := os.ReadFile(n.worker.Kubeconfig())
	n.Must(err)
	n.useKubeconfigs(core, worker)
}

func (n *night) useKubeconfigs(core, worker []byte) {
	n.Helper()
	loaded := n.countReloads()
	n.Must(replaceFile(webhookKubeconfig(n.Dir(), n.core), core))
	n.Must(replaceFile(webhookKubeconfig(n.Dir(), n.worker), worker))
	secret := &corev1.Secret{}
	at := client.ObjectKey{Namespace: install.SystemNamespace, Name: n.worker.Name()}
	n.Must(n.Core.Get(n.endContext(), at, secret))
	patch := client.MergeFrom(secret.DeepCopy())
	secret.Data["kubeconfig"] = worker
	n.Must(n.Core.Patch(n.endContext(), secret, patch))
	want := loaded + 2*len(n.Breakwater.WebhookAddresses())
	n.Eventually(func() string {
		if got := n.countReloads(); got != want {
			return fmt.Sprintf("the webhooks have loaded %d kubeconfigs, want %d", got-loaded, want-loaded)
		}
		return ""
	})
}

// countReloads returns how often the webhooks have loaded a new kubeconfig, according to their logs.
func (n *night) countReloads() (count int) {
	n.Helper()
	for i := range n.Breakwater.WebhookAddresses() {
		log, err := os.ReadFile(filepath.Join(n.Dir(), install.WebhookName(i)+".log"))
		n.Must(err)
		count += strings.Count(string(log), "Loaded a new kubeconfig")
	}
	return count
}
