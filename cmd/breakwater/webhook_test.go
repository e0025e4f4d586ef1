package main

import (
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestWebhookRejectsInvalidFlags(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: "https://127.0.0.1:1"}}, CurrentContext: "x",
		Contexts: map[string]*clientcmdapi.Context{"x": {Cluster: "c"}},
	}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	required := []string{"--core", "a=/nonexistent", "--cell", "b=/nonexistent", "--tls-cert", "x", "--tls-key", "x"}
	for claim, c := range map[string]struct {
		arguments []string
		want      string
	}{
		"nothing":                  {nil, "--core is required at least once"},
		"Cells of an unknown core": {append([]string{"--core", "a=" + kubeconfig, "--tls-cert", "x", "--tls-key", "x"}, "--cells-of", "b"), "--cells-of b: no --core has that name"},
		"a peer without a port": {
			append(required, "--peer", "peers", "--advertise", "10.0.0.1:9443"), `--peer "peers": `,
		},
		"peers without an address of this replica": {append(required, "--peer", "peers:9443"), `--advertise "": want the IP:PORT`},
		"a name instead of an address":             {append(required, "--advertise", "me:9443"), `--advertise "me:9443": want the IP:PORT`},
		"an IPv4 address in brackets":              {append(required, "--advertise", "[10.0.0.1]:9443"), `--core a=/nonexistent: load kubeconfig`},
		"an IPv6 address":                          {append(required, "--advertise", "[fd00::1]:9443"), `--core a=/nonexistent: load kubeconfig`},
		"a kubeconfig that does not exist":         {required, `--core a=/nonexistent: load kubeconfig`},
		"a Secret without a key":                   {append(required, "--renew-token", "core-core"), `--renew-token "core-core": want SECRET/KEY`},
		"an invalid mode":                          {append(required, "--root-guard", "warn"), `--root-guard: "warn" is not a mode: want Off, Warn or Deny`},
		"a drain that is too long":                 {append(required, "--drain", "2m"), "--drain 2m0s: want from 0s to 1m"},
	} {
		t.Run(claim, func(t *testing.T) {
			wantError(t, c.want, append([]string{"webhook"}, c.arguments...)...)
		})
	}
}
