package main

import (
	"strings"
	"testing"
)

func TestWebhookRefusesBadFlagsByName(t *testing.T) {
	required := []string{"--core", "a=/nonexistent", "--cell", "b=/nonexistent", "--tls-cert", "x", "--tls-key", "x"}
	for claim, c := range map[string]struct {
		arguments []string
		want      string
	}{
		"nothing": {nil, "--core is required at least once"},
		"a peer without a port": {
			append(required, "--peer", "peers", "--advertise", "10.0.0.1:9443"), `--peer "peers": `,
		},
		"peers, and no address of its own": {append(required, "--peer", "peers:9443"), `--advertise "": want the IP:PORT`},
		"a name for its own address":       {append(required, "--advertise", "me:9443"), `--advertise "me:9443": want the IP:PORT`},
		"its own address in brackets":      {append(required, "--advertise", "[10.0.0.1]:9443"), `--core a=/nonexistent: load kubeconfig`},
		"an IPv6 address of its own":       {append(required, "--advertise", "[fd00::1]:9443"), `--core a=/nonexistent: load kubeconfig`},
		"a kubeconfig that does not exist": {required, `--core a=/nonexistent: load kubeconfig`},
		"a drain that never ends":          {append(required, "--drain", "2m"), "--drain 2m0s: want from 0s to 1m"},
	} {
		t.Run(claim, func(t *testing.T) {
			command := rootCommand()
			command.SetArgs(append([]string{"webhook"}, c.arguments...))
			if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}
