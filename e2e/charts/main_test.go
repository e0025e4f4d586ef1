// Package charts_test installs Breakwater as users do, by the real Helm from the charts, and runs what the charts describe with
// the rights that they grant.
package charts_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/internal/federation/local"
	"github.com/breakwater-k8s/breakwater/internal/federation/pki"
	"github.com/breakwater-k8s/breakwater/internal/federation/port"
	"github.com/breakwater-k8s/breakwater/internal/install"
)

const (
	namespace = "breakwater-system"
	folder    = "../../charts/"
	// installTime bounds what Helm waits for.
	installTime = 90 * time.Second
)

//nolint:gochecknoglobals // what a package's tests share
var (
	single  = e2e.NewSuiteBy("single", begin)
	release *helmRelease
)

func TestMain(m *testing.M) { os.Exit(single.Main(m)) }

// helmRelease is Breakwater as it is installed.
type helmRelease struct {
	*kubelet
	balancer   *install.Balancer
	kubeconfig string
	cell       string
	values     string // file
}

func begin(ctx context.Context, s *e2e.Suite) (func(), error) {
	cluster := s.Federation().Clusters()[0]
	pods := filepath.Join(s.Dir(), "pods")
	if err := os.Mkdir(pods, 0o700); err != nil {
		return nil, err
	}
	k, err := startKubelet(cluster, s.Program(), pods)
	if err != nil {
		return nil, err
	}
	r := &helmRelease{kubelet: k, kubeconfig: cluster.Kubeconfig(), cell: cluster.Name(), values: filepath.Join(s.Dir(), "values.yaml")}
	if r.balancer, err = install.NewBalancer(k.webhooks); err != nil {
		return nil, err
	}
	release = r
	stop := func() { k.close(); r.balancer.Close() }
	if err := errors.Join(r.furnish(ctx), r.installCharts(ctx)); err != nil {
		err = errors.Join(err, r.complaints())
		stop()
		return nil, err
	}
	return stop, nil
}

// furnish makes what users have before they install: a namespace, and here a certificate of their own.
func (r *helmRelease) furnish(ctx context.Context) error {
	authority, err := pki.NewAuthority("breakwater charts")
	if err != nil {
		return err
	}
	serving, err := authority.Server("breakwater webhook", []net.IP{net.ParseIP(port.Host), net.ParseIP(install.OutwardHost)})
	if err != nil {
		return err
	}
	restricted := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	_, err = r.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: restricted}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = r.client.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "certificate"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: serving.Certificate, corev1.TLSPrivateKeyKey: serving.Key},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	values, err := yaml.Marshal(map[string]any{
		"role": "single",
		"core": map[string]any{"name": r.cell},
		"cells": []any{map[string]any{
			"name": r.cell, "spec": map[string]any{"admissionDeadline": e2e.AdmissionDeadline.String()},
		}},
		"tls":     map[string]any{"mode": "secret", "secretName": "certificate"},
		"webhook": map[string]any{"url": "https://" + r.balancer.Outward(), "caBundle": string(authority.PEM), "drain": "1s", "logLevel": "debug"},
		"podAnnotations": map[string]any{
			"federation.breakwater.dev/ready": "false", "federation.breakwater.dev/complete": "held",
		},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(r.values, values, 0o600)
}

func (r *helmRelease) installCharts(ctx context.Context) error {
	// The federation has installed the definitions as they are. Helm takes over what it is told to.
	if out, err := r.helm(ctx, "upgrade", "--install", "breakwater-crds", folder+"breakwater-crds", "--take-ownership"); err != nil {
		return fmt.Errorf("install the definitions: %w\n%s", err, out)
	}
	if out, err := r.helm(ctx, "install", "breakwater", folder+"breakwater", "--values", r.values, "--wait"); err != nil {
		return fmt.Errorf("install Breakwater: %w\n%s", err, out)
	}
	return nil
}

// helm runs it on the cluster, for the namespace of the release.
func (r *helmRelease) helm(ctx context.Context, arguments ...string) (string, error) {
	program, ok := local.FindProgram(filepath.SplitList(os.Getenv(local.BinariesVariable)), "helm")
	if !ok {
		return "", errors.New("helm was not built: run make test")
	}
	home := filepath.Dir(r.values)
	command := exec.CommandContext(ctx, program, append(arguments, "--namespace", namespace, "--timeout", installTime.String())...)
	command.Env = []string{
		"KUBECONFIG=" + r.kubeconfig, "HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_CACHE_HOME=" + home, "HELM_DATA_HOME=" + home,
	}
	out, err := command.CombinedOutput()
	return string(out), err
}

func isReady(ctx context.Context, health string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+health+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}
