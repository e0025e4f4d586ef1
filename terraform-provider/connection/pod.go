package connection

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
)

// accountFolder is where the kubelet mounts the credentials of a pod's ServiceAccount.
const accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

func runsInPod(getenv func(string) string, folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "token"))
	return err == nil && getenv("KUBERNETES_SERVICE_HOST") != ""
}

// podConfig returns the configuration for the cluster of the pod that Terraform runs in. It does the same as client-go, but reads the
// environment through getenv.
func podConfig(getenv func(string) string, folder string) (*rest.Config, error) {
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("in_cluster is true, but Terraform does not run in a pod: KUBERNETES_SERVICE_HOST is not set")
	}
	token := filepath.Join(folder, "token")
	raw, err := os.ReadFile(token)
	if err != nil {
		return nil, fmt.Errorf("in_cluster is true, but the pod has no ServiceAccount token (see automountServiceAccountToken): %w", err)
	}
	return &rest.Config{
		Host: "https://" + net.JoinHostPort(host, port),
		// The kubelet replaces the file before the token expires.
		BearerToken: strings.TrimSpace(string(raw)), BearerTokenFile: token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(folder, "ca.crt")},
	}, nil
}
