package main

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestConsoleRejectsInvalidFlags(t *testing.T) {
	certFile, keyFile := writeCertificate(t)
	pair := []string{"--tls-cert", certFile, "--tls-key", keyFile}
	good := slices.Concat(pair, []string{"--kubeconfig", writeKubeconfig(t, testplane.Config(t)), "--metrics-listen", "0", "--health-listen", "0"})
	for claim, c := range map[string]struct {
		arguments []string
		want      string
	}{
		"nothing":                             {nil, "--tls-cert and --tls-key are required"},
		"an address without a port":           {append(good, "--listen", "9443"), `--listen "9443"`},
		"a session that ends at once":         {append(good, "--session-idle", "1s"), "--session-idle 1s: want from 1m"},
		"a session with a too long idle time": {append(good, "--session-idle", "13h"), "--session-idle 13h0m0s: want from 1m to --session-lifetime"},
		"a session without an end":            {append(good, "--session-lifetime", "1000h"), "--session-lifetime 1000h0m0s: want at most 168h"},
		"reviews that are cached too long":    {append(good, "--reviews-for", "1h"), "--reviews-for 1h0m0s: want from 0s to 10m"},
		"a missing certificate":               {append(good, "--tls-cert", "/nonexistent"), "--tls-cert /nonexistent, --tls-key " + keyFile},
		"a missing kubeconfig":                {append(good, "--kubeconfig", "/nonexistent"), "--kubeconfig: load kubeconfig"},
		"another core of the same name":       {append(good, "--core", "core="+good[5]), "--core core: that is the name of the cluster of --kubeconfig: set --core-name"},
		"a core without a kubeconfig":         {append(good, "--core", "west"), `--core: "west" is not NAME=KUBECONFIG`},
		"a history file in no folder":         {append(good, "--history-file", "/nonexistent/history"), "--history-file /nonexistent/history: "},
		"arguments":                           {append(good, "shops"), "unknown command"},
	} {
		t.Run(claim, func(t *testing.T) {
			if _, err := commandOutput(t, append([]string{"console"}, c.arguments...)...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that contains %q", err, c.want)
			}
		})
	}
}

func TestConsoleServesAndEnds(t *testing.T) {
	certFile, keyFile := writeCertificate(t)
	address, health, metrics := testplane.FreeAddress(t), testplane.FreeAddress(t), testplane.FreeAddress(t)
	history := filepath.Join(t.TempDir(), "history")
	stop := runProgram(t, "console", "--kubeconfig", writeKubeconfig(t, testplane.Config(t)), "--listen", address, "--tls-cert", certFile, "--tls-key", keyFile,
		"--health-listen", health, "--metrics-listen", metrics, "--history-file", history)
	eventually(t, "ready", func() string { return fetch("http://"+health+"/readyz", "ok") })
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://"+address+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/html")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.Request.URL.Path != "/sign-in" || !strings.Contains(string(body), "kubectl create token") {
		t.Errorf("error %v, at %s: %s", err, response.Request.URL, body)
	}
	if missing := fetch("http://"+metrics+"/metrics", `breakwater_console_requests_total{code="303"} 1`); missing != "" {
		t.Error(missing)
	}
	if err := os.Remove(history); err != nil {
		t.Errorf("no history is saved at the start: %v", err)
	}
	stop()
	if _, err := os.Stat(history); err != nil {
		t.Errorf("no history is saved at the end: %v", err)
	}
}
