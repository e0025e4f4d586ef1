package connection

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigInCluster(t *testing.T) {
	folder := t.TempDir()
	pod := map[string]string{"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
	getenv := func(name string) string { return pod[name] }
	if runsInPod(getenv, folder) {
		t.Error("runsInPod() without a token = true")
	}
	if _, err := podConfig(getenv, folder); err == nil || !strings.Contains(err.Error(), "automountServiceAccountToken") {
		t.Errorf("without a token: %v", err)
	}
	token := filepath.Join(folder, "token")
	if err := os.WriteFile(token, []byte("t\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := podConfig(getenv, folder)
	if err != nil || !runsInPod(getenv, folder) {
		t.Fatalf("runsInPod() = false: %v", err)
	}
	if config.Host != "https://[fd00::1]:443" || config.BearerToken != "t" || config.BearerTokenFile != token || config.CAFile != filepath.Join(folder, "ca.crt") {
		t.Errorf("podConfig() = %v", config)
	}
}
