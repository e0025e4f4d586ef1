package clusters

import (
	"errors"
	"testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// FuzzKubeconfig reads arbitrary bytes as the kubeconfig of a Cell's Secret. parseKubeconfig rejects them with a reason, or returns a
// self-contained configuration, which names no file of this machine and no program.
func FuzzKubeconfig(f *testing.F) {
	const begin = "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
	const cluster = "clusters: [{name: k, cluster: {server: 'https://127.0.0.1:6443'}}]\n"
	for _, seed := range []string{
		"", "{}", "null", "- a", "\x00", begin, begin + cluster, begin + cluster + "users: [{name: u, user: {token: t}}]\n",
		begin + cluster + "users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}}}]\n",
		begin + cluster + "users: [{name: u, user: {auth-provider: {name: oidc}}}]\n",
		begin + cluster + "users: [{name: u, user: {tokenFile: /var/run/secrets/token}}]\n",
		begin + cluster + "users: [{name: u, user: {client-certificate: /a, client-key: /b}}]\n",
		begin + "clusters: [{name: k, cluster: {server: 'https://127.0.0.1:6443', certificate-authority: /etc/passwd}}]\n",
		begin + "clusters: [{name: k, cluster: {server: 'https://127.0.0.1:6443', insecure-skip-tls-verify: true, proxy-url: 'http://127.0.0.1:3128'}}]\n",
		begin + "clusters: [{name: k, cluster: {server: 'https://%zz', tls-server-name: \"a\\u202e\"}}]\n",
		"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		config, err := parseKubeconfig(raw, "test")
		if err != nil {
			denied := (*Problem)(nil)
			if !errors.As(err, &denied) || denied.Reason != v1alpha1.ReasonKubeconfigInvalid || err.Error() == "" {
				t.Errorf("the error of %q is %q, want one of %s", raw, err, v1alpha1.ReasonKubeconfigInvalid)
			}
			return
		}
		if config.Host == "" {
			t.Errorf("%q leads to no server", raw)
		}
		if config.ExecProvider != nil || config.AuthProvider != nil {
			t.Errorf("%q runs a program: %+v", raw, config)
		}
		for _, file := range []string{config.CAFile, config.CertFile, config.KeyFile, config.BearerTokenFile} {
			if file != "" {
				t.Errorf("%q reads the file %s", raw, file)
			}
		}
	})
}
