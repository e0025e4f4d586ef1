// Package release installs Breakwater as users do, with the real Helm from the charts, into clusters with simulated kubelets. It
// runs what the charts describe, with the permissions that they grant.
package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/pki"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

const (
	// Namespace is the namespace of all releases.
	Namespace = "breakwater-system"
	// helmTimeout is Helm's timeout.
	helmTimeout = 90 * time.Second
	// certificate is the Secret with the webhooks' serving certificate.
	certificate = "certificate"
)

// Release is an installation of Breakwater in one cluster.
type Release struct {
	*Kubelet
	Cluster federation.Cluster
	// Charts is the directory of the charts.
	Charts string
	// Values is the values file of the installation.
	Values string

	balancer  *install.Balancer
	authority []byte // PEM
}

// New starts the Kubelet of a cluster, and creates what users have before they install: a namespace, and here also their own
// certificate. program is the path of breakwater, dir a directory for the release.
func New(ctx context.Context, cluster federation.Cluster, program, dir, charts string) (*Release, error) {
	pods := filepath.Join(dir, cluster.Name()+"-pods")
	if err := os.MkdirAll(pods, 0o700); err != nil {
		return nil, err
	}
	k, err := StartKubelet(cluster, program, pods)
	if err != nil {
		return nil, err
	}
	r := &Release{Kubelet: k, Cluster: cluster, Charts: charts, Values: filepath.Join(dir, cluster.Name()+"-values.yaml")}
	if r.balancer, err = install.NewBalancer(k.Webhooks); err != nil {
		return nil, err
	}
	if err := r.prepare(ctx); err != nil {
		r.Close()
		return nil, fmt.Errorf("prepare cluster %s: %w", cluster.Name(), err)
	}
	return r, nil
}

// Close ends all processes. Objects in the cluster stay.
func (r *Release) Close() {
	r.Kubelet.Close()
	r.balancer.Close()
}

func (r *Release) prepare(ctx context.Context) error {
	authority, err := pki.NewAuthority("breakwater charts")
	if err != nil {
		return err
	}
	r.authority = authority.PEM
	serving, err := authority.Server("breakwater webhook", []net.IP{net.ParseIP(port.Host), net.ParseIP(install.ExternalHost)})
	if err != nil {
		return err
	}
	restricted := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	_, err = r.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace, Labels: restricted}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = r.client.CoreV1().Secrets(Namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: certificate}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: serving.Certificate, corev1.TLSPrivateKeyKey: serving.Key},
	}, metav1.CreateOptions{})
	return err
}

// Install installs the chart with these values. Unless the values disable the webhook, it adds the webhook's URL and authority:
// the webhooks are processes, which no Service can reach. arguments are passed to Helm.
func (r *Release) Install(ctx context.Context, values map[string]any, arguments ...string) error {
	if told, _ := values["webhook"].(map[string]any); told["enabled"] != false {
		webhook := map[string]any{
			"url": "https://" + r.balancer.ExternalAddress(), "caBundle": string(r.authority), "drain": "1s", "logLevel": "debug",
		}
		maps.Copy(webhook, told)
		values["webhook"] = webhook
		values["tls"] = map[string]any{"mode": "secret", "secretName": certificate}
	}
	values["podAnnotations"] = map[string]any{federation.ReadyAnnotation: "false", federation.CompleteAnnotation: "held"}
	raw, err := yaml.Marshal(values)
	if err == nil {
		err = os.WriteFile(r.Values, raw, 0o600)
	}
	if err != nil {
		return err
	}
	arguments = append([]string{"install", "breakwater", filepath.Join(r.Charts, "breakwater"), "--values", r.Values}, arguments...)
	if out, err := r.Helm(ctx, arguments...); err != nil {
		return fmt.Errorf("install Breakwater in cluster %s: %w\n%s", r.Cluster.Name(), errors.Join(err, r.Problems()), out)
	}
	return nil
}

// InstallDefinitions installs the CRD chart, and takes ownership of the CRDs that the federation has installed.
func (r *Release) InstallDefinitions(ctx context.Context) error {
	out, err := r.Helm(ctx, "upgrade", "--install", "breakwater-crds", filepath.Join(r.Charts, "breakwater-crds"), "--take-ownership")
	if err != nil {
		return fmt.Errorf("install the CRDs in cluster %s: %w\n%s", r.Cluster.Name(), err, out)
	}
	return nil
}

// Helm runs Helm on the cluster, for the namespace of the release.
func (r *Release) Helm(ctx context.Context, arguments ...string) (string, error) {
	arguments = append(arguments, "--namespace", Namespace, "--timeout", helmTimeout.String())
	command, err := Helm(ctx, filepath.Dir(r.Values), arguments...)
	if err != nil {
		return "", err
	}
	command.Env = append(command.Env, "KUBECONFIG="+r.Cluster.Kubeconfig())
	out, err := command.CombinedOutput()
	return string(out), err
}
