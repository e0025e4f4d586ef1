package clusters

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

// fingerprint identifies the content of a kubeconfig.
type fingerprint [sha256.Size]byte

// kubeconfigOf reads the kubeconfig of a Cell. An error is a Problem.
func kubeconfigOf(ctx context.Context, core client.Reader, ref *v1alpha1.KubeconfigSecretRef) ([]byte, error) {
	name, key := ref.Namespace+"/"+ref.Name, cmp.Or(ref.Key, "kubeconfig")
	secret := &corev1.Secret{}
	err := core.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, problem(v1alpha1.ReasonSecretMissing, nil, "the core cluster has no Secret %s: create it, or correct spec.kubeconfigSecretRef", name)
	case err != nil:
		return nil, problem(v1alpha1.ReasonSecretUnreadable, err, "Secret %s cannot be read", name)
	case len(secret.Data[key]) == 0:
		return nil, problem(v1alpha1.ReasonSecretMissing, nil, "Secret %s has nothing under the key %q: correct it, or spec.kubeconfigSecretRef", name, key)
	}
	return secret.Data[key], nil
}

// parseKubeconfig turns a kubeconfig from a Secret into a client configuration. The kubeconfig must be self-contained. It must not name a
// file, which would be read from this machine, or a program, which would run with the rights of this process.
func parseKubeconfig(raw []byte, component string) (*rest.Config, error) {
	invalid := func(err error) error {
		return problem(v1alpha1.ReasonKubeconfigInvalid, err, "the kubeconfig of the Secret cannot be used")
	}
	file, err := clientcmd.Load(raw)
	if err != nil {
		return nil, invalid(err)
	}
	if err := checkSelfContained(file); err != nil {
		return nil, invalid(err)
	}
	config, err := clientcmd.NewDefaultClientConfig(*file, &clientcmd.ConfigOverrides{}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		err = errors.New("it has no cluster address: it is empty, or has no current-context")
	}
	if err != nil {
		return nil, invalid(err)
	}
	config.Wrap(limitResponses)
	config.QPS, config.UserAgent = -1, fmt.Sprintf("breakwater-%s/%s", component, version.String())
	return config, nil
}

// ValidateKubeconfig returns an error if Breakwater cannot use a kubeconfig from a Secret, regardless of whether its cluster is reachable.
func ValidateKubeconfig(raw []byte) error {
	_, err := parseKubeconfig(raw, "")
	return err
}

func checkSelfContained(file *clientcmdapi.Config) error {
	for name, user := range file.AuthInfos {
		switch {
		case user.Exec != nil || user.AuthProvider != nil:
			return fmt.Errorf("user %q gets its credentials from a program, which is not run: give a token or a certificate", name)
		case user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "":
			return fmt.Errorf("user %q names files: put their content into the kubeconfig (kubectl config view --flatten)", name)
		}
	}
	for name, cluster := range file.Clusters {
		if cluster.CertificateAuthority != "" {
			return fmt.Errorf("cluster %q names a file: put its content into certificate-authority-data (kubectl config view --flatten)", name)
		}
	}
	return nil
}

// exposure is how far a connection depends on the trustworthiness of the network. A Cell has to allow it.
type exposure struct{ insecure, proxy bool }

func exposureOf(config *rest.Config) exposure {
	server, _, err := rest.DefaultServerUrlFor(config)
	return exposure{insecure: config.Insecure || err == nil && server.Scheme != "https", proxy: config.Proxy != nil}
}

// allowedBy returns an error with the remedy if the Cell with that reference does not allow the exposure.
func (e exposure) allowedBy(ref *v1alpha1.KubeconfigSecretRef) error {
	switch {
	case e.insecure && !ref.AllowInsecure:
		return errors.New("it does not verify the API server (insecure-skip-tls-verify, or no https): " +
			"put certificate-authority-data into it, or set spec.kubeconfigSecretRef.allowInsecure of the Cell to true")
	case e.proxy && !ref.AllowProxy:
		return errors.New("it has a proxy-url: remove it, or set spec.kubeconfigSecretRef.allowProxy of the Cell to true")
	}
	return nil
}

// ClusterOf returns the UID of the namespace kube-system, which identifies a cluster, also after a restore of its etcd.
func ClusterOf(ctx context.Context, clientset kubernetes.Interface) (string, error) {
	system, err := clientset.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return string(system.UID), nil
}

// clusterAt returns the cluster that a configuration leads to. An error is a Problem.
func clusterAt(ctx context.Context, config *rest.Config) (string, error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", problem(v1alpha1.ReasonKubeconfigInvalid, err, "the kubeconfig of the Secret cannot be used")
	}
	cluster, err := ClusterOf(ctx, clientset)
	if err != nil {
		return "", diagnose(config, err)
	}
	return cluster, nil
}

// Connect reads the kubeconfig of a Cell and determines which cluster it leads to. An error is a Problem.
func Connect(ctx context.Context, core client.Reader, cell *v1alpha1.Cell, component string) (*rest.Config, string, error) {
	raw, err := kubeconfigOf(ctx, core, cell.Spec.KubeconfigSecretRef)
	if err != nil {
		return nil, "", err
	}
	return ConnectBy(ctx, cell, raw, component)
}

// ConnectBy is like Connect, for a kubeconfig that is not in the Secret of the Cell yet. The Cell need not exist.
func ConnectBy(ctx context.Context, cell *v1alpha1.Cell, raw []byte, component string) (*rest.Config, string, error) {
	config, err := parseKubeconfig(raw, component)
	if err != nil {
		return nil, "", err
	}
	if err := exposureOf(config).allowedBy(cell.Spec.KubeconfigSecretRef); err != nil {
		return nil, "", problem(v1alpha1.ReasonKubeconfigInvalid, err, "the kubeconfig of the Secret cannot be used")
	}
	cluster, err := VerifyCluster(ctx, cell, config)
	if err != nil {
		return nil, "", err
	}
	return config, cluster, nil
}

// VerifyCluster returns the cluster that a configuration leads to, which must be the cluster of the Cell. An error is a Problem.
func VerifyCluster(ctx context.Context, cell *v1alpha1.Cell, config *rest.Config) (string, error) {
	cluster, err := clusterAt(ctx, config)
	if err != nil {
		return "", err
	}
	if recorded := cell.Status.Cluster; recorded != "" && recorded != cluster {
		return "", problem(v1alpha1.ReasonAnotherCluster, nil, "the kubeconfig leads to another cluster (%s) than that of the Cell (%s): "+
			"put a kubeconfig of the Cell's cluster into the Secret, or create another Cell", cluster, recorded)
	}
	return cluster, nil
}
