package gitops

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// ArgoNamespace is the namespace of Argo CD. It must exist, as must Argo CD's CRDs and ConfigMap.
const ArgoNamespace = "argocd"

// StartArgo starts the controllers of Argo CD. They are not under test, so they run with all permissions. The host's cluster is registered by
// a name with labels. Close ends them.
func (s *ProcessHost) StartArgo(ctx context.Context, name string, labels map[string]string) error {
	program, err := local.BuiltProgram("argocd")
	if err != nil {
		return err
	}
	helm, err := local.BuiltProgram("helm")
	if err != nil {
		return err
	}
	if err := s.registerCluster(ctx, name, labels); err != nil {
		return err
	}
	addresses := make([]string, 7)
	ports := make([]string, len(addresses))
	for i := range addresses {
		if addresses[i], err = s.FreeAddress(); err != nil {
			return err
		}
		_, ports[i], _ = net.SplitHostPort(addresses[i]) // FreeAddress returns host:port
	}
	redis, repositories := addresses[0], addresses[1]
	environment := []string{
		"KUBECONFIG=" + s.Cluster.Kubeconfig(), "ARGOCD_GPG_ENABLED=false", "PATH=" + filepath.Dir(helm) + ":" + os.Getenv("PATH"),
	}
	for _, arguments := range [][]string{
		{"redis", redis},
		{"argocd-repo-server", "--redis=" + redis, "--address=127.0.0.1", "--port=" + ports[1], "--metrics-port=" + ports[2]},
		{"argocd-application-controller", "--namespace=" + ArgoNamespace, "--redis=" + redis, "--repo-server=" + repositories, "--metrics-port=" + ports[3]},
		{"argocd-applicationset-controller", "--namespace=" + ArgoNamespace, "--argocd-repo-server=" + repositories,
			"--metrics-addr=" + addresses[4], "--probe-addr=" + addresses[5], "--webhook-addr=" + addresses[6]},
	} {
		if err := s.StartProcess("argocd-"+strings.TrimPrefix(arguments[0], "argocd-"), program, environment, arguments...); err != nil {
			return err
		}
	}
	return nil
}

// registerCluster creates the Secrets from which Argo CD knows a cluster, and its own.
func (s *ProcessHost) registerCluster(ctx context.Context, name string, labels map[string]string) error {
	config := rest.CopyConfig(s.Cluster.RESTConfig())
	if err := rest.LoadTLSFiles(config); err != nil {
		return fmt.Errorf("read the credentials of the cluster: %w", err)
	}
	access, err := json.Marshal(map[string]any{"bearerToken": config.BearerToken, "tlsClientConfig": map[string]any{
		"serverName": config.ServerName, "caData": config.CAData, "certData": config.CertData, "keyData": config.KeyData,
	}})
	if err != nil {
		return err
	}
	all := map[string]string{"argocd.argoproj.io/secret-type": "cluster"}
	maps.Copy(all, labels)
	for _, secret := range []*corev1.Secret{
		{ObjectMeta: metav1.ObjectMeta{Name: "argocd-secret"}, StringData: map[string]string{"server.secretkey": "test"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "cluster-" + name, Labels: all}, StringData: map[string]string{
			"name": name, "server": config.Host, "config": string(access),
		}},
	} {
		secret.Namespace = ArgoNamespace
		if err := client.IgnoreAlreadyExists(s.Create(ctx, secret)); err != nil {
			return err
		}
	}
	return nil
}
