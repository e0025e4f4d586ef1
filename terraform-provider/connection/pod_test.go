package connection

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAPodLeadsIntoItsOwnCluster(t *testing.T) {
	folder := t.TempDir()
	pod := map[string]string{"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
	getenv := func(name string) string { return pod[name] }
	if isPod(getenv, folder) {
		t.Error("without a token it is taken for a pod")
	}
	if _, err := inPod(getenv, folder); err == nil || !strings.Contains(err.Error(), "automountServiceAccountToken") {
		t.Errorf("without a token: %v", err)
	}
	token := filepath.Join(folder, "token")
	if err := os.WriteFile(token, []byte("t\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := inPod(getenv, folder)
	if err != nil || !isPod(getenv, folder) {
		t.Fatalf("it is not taken for a pod: %v", err)
	}
	if config.Host != "https://[fd00::1]:443" || config.BearerToken != "t" || config.BearerTokenFile != token || config.CAFile != filepath.Join(folder, "ca.crt") {
		t.Errorf("it leads to %v", config)
	}
}
