package nodeguard

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// serviceAccountDir is where a kubelet mounts the token of a pod's account.
const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// tokenLifetime is how long a token of the guard's account is valid: how long the guard can register pods in a disaster in which nothing renews it.
const tokenLifetime = 7 * 24 * time.Hour

// InCluster returns the account of the pod in which the caller runs.
func InCluster() (*Account, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("this program does not run in a pod: KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set")
	}
	roots, err := os.ReadFile(filepath.Join(serviceAccountDir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	k := &Kubeconfig{Server: &url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)}, Roots: x509.NewCertPool()}
	if !k.Roots.AppendCertsFromPEM(roots) {
		return nil, errors.New("the ca.crt of the pod's account is not PEM")
	}
	return NewAccount(k, filepath.Join(serviceAccountDir, "token")), nil
}

// NewAccount returns an account that a token authenticates.
func NewAccount(k *Kubeconfig, tokenFile string) *Account {
	// Requests without the kubelet's certificate do not check the identity of the cluster: a connection without rights could not read it.
	unchecked := func(context.Context, http.RoundTripper) error { return nil }
	return &Account{server: k.Server, upstream: NewUpstream(k, false, unchecked), tokenFile: tokenFile}
}

// RequestToken returns a token of a ServiceAccount that is valid as long as a Node exists, and when it expires.
func (a *Account) RequestToken(ctx context.Context, namespace, name, node string) (token []byte, expires time.Time, err error) {
	seconds := int64(tokenLifetime / time.Second)
	request := authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"},
		Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: &seconds, BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node},
		},
	}
	path := "/api/v1/namespaces/" + namespace + "/serviceaccounts/" + name + "/token"
	var issued authenticationv1.TokenRequest
	if err := a.do(ctx, http.MethodPost, path, "application/json", &request, &issued); err != nil {
		return nil, time.Time{}, fmt.Errorf("request a token of ServiceAccount %s/%s for node %s: %w", namespace, name, node, err)
	}
	return []byte(issued.Status.Token), issued.Status.ExpirationTimestamp.Time, nil
}
