package connection_test

import (
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/pki"
)

// pairs holds two certificates with their keys, and the authority of both.
type pairs struct {
	ca             string
	one, two       pki.Pair
	encrypted, bad string
}

func newPairs(t *testing.T) *pairs {
	t.Helper()
	authority, err := pki.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	p := &pairs{ca: string(authority.PEM), encrypted: "-----BEGIN ENCRYPTED PRIVATE KEY-----\naGlkZGVu\n-----END ENCRYPTED PRIVATE KEY-----\n",
		bad: "-----BEGIN CERTIFICATE-----\naGlkZGVu\n-----END CERTIFICATE-----\n"}
	for name, pair := range map[string]*pki.Pair{"one": &p.one, "two": &p.two} {
		if *pair, err = authority.Client(name); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// twoContexts is a kubeconfig with the contexts core (the current one) and worker, each with a cluster and a user of the same
// name.
const twoContexts = `
apiVersion: v1
kind: Config
current-context: core
contexts:
- {name: core, context: {cluster: core, user: core}}
- {name: worker, context: {cluster: worker, user: worker}}
- {name: lost, context: {cluster: nowhere, user: core}}
- {name: unknown-user, context: {cluster: core, user: no-one}}
clusters:
- {name: core, cluster: {server: "https://core:6443", tls-server-name: core.internal, insecure-skip-tls-verify: true}}
- {name: worker, cluster: {server: "https://worker:6443", proxy-url: "http://proxy:3128"}}
- {name: bad-proxy, cluster: {server: "https://worker:6443", proxy-url: "ftp://me:hidden@proxy"}}
users:
- {name: core, user: {token: token-of-core}}
- {name: worker, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: log-in, interactiveMode: IfAvailable}}}
`

const otherContext = `
apiVersion: v1
kind: Config
current-context: other
contexts:
- {name: other, context: {cluster: other, user: core}}
clusters:
- {name: other, cluster: {server: "https://other:6443"}}
`

// kubeconfigFolder creates a directory with kubeconfigs.
func kubeconfigFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{
		"two": twoContexts, "other": otherContext, "garbage": "kind: hidden\napiVersion: v1\n", "hidden": "not a kubeconfig",
		".kube/config": strings.ReplaceAll(twoContexts, "core:6443", "surprise:6443"),
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// resultConfig holds the relevant fields of a client configuration.
type resultConfig struct {
	Host, Token, ServerName, CA, Certificate, Key, User, Password, Proxy string
	Insecure                                                             bool
	Exec                                                                 []string
	Timeout                                                              time.Duration
}

func readConfig(t *testing.T, config *rest.Config) resultConfig {
	t.Helper()
	l := resultConfig{
		Host: config.Host, Token: config.BearerToken, ServerName: config.ServerName, CA: string(config.CAData),
		Certificate: string(config.CertData), Key: string(config.KeyData), User: config.Username, Password: config.Password,
		Insecure: config.Insecure, Timeout: config.Timeout,
	}
	if config.Proxy != nil {
		proxy, err := config.Proxy(&http.Request{})
		if err != nil {
			t.Fatal(err)
		}
		l.Proxy = proxy.String()
	}
	if e := config.ExecProvider; e != nil {
		l.Exec = append([]string{e.APIVersion, e.Command}, e.Args...)
		for _, variable := range e.Env {
			l.Exec = append(l.Exec, variable.Name+"="+variable.Value)
		}
		if !e.StdinUnavailable || e.InteractiveMode == clientcmdapi.AlwaysExecInteractiveMode {
			t.Error("the plugin may ask at a terminal")
		}
	}
	return l
}

type variables map[string]string

// in returns the variables, with HOMEFOLDER replaced by the folder.
func (v variables) in(folder string) func(string) string {
	return func(name string) string { return strings.ReplaceAll(v[name], "HOMEFOLDER", folder) }
}

func TestClusterRequired(t *testing.T) {
	for claim, c := range map[string]struct {
		attribute any
		variable  string
		want      string
	}{
		"nothing set":                    {want: "depends on the state"},
		"the attribute":                  {attribute: false, want: "false"},
		"an unknown attribute":           {attribute: unknown{}, want: "depends on the state"},
		"the variable":                   {variable: "true", want: "true"},
		"the attribute and the variable": {attribute: false, variable: "true", want: "false"},
		"a variable that is no value":    {variable: "maybe", want: "KUBE_REQUIRE_CLUSTER is neither true nor false"},
	} {
		m := configuration{"require_cluster": c.attribute}.model(t)
		required, err := m.ClusterRequired(variables{"KUBE_REQUIRE_CLUSTER": c.variable}.in(""))
		got := "depends on the state"
		if required != nil {
			got = strconv.FormatBool(*required)
		}
		if err != nil {
			got = err.Error()
		}
		if got != c.want || m.IsUnknown() {
			t.Errorf("%s: %s, unknown %t, want %s", claim, got, m.IsUnknown(), c.want)
		}
	}
}

func TestConfig(t *testing.T) {
	p, folder := newPairs(t), kubeconfigFolder(t)
	core := resultConfig{Host: "https://core:6443", Token: "token-of-core", ServerName: "core.internal", Insecure: true, Timeout: time.Minute}
	worker := resultConfig{Host: "https://worker:6443", Proxy: "http://proxy:3128", Exec: []string{"client.authentication.k8s.io/v1", "log-in"}, Timeout: time.Minute}
	other := resultConfig{Host: "https://other:6443", Token: "token-of-core", Timeout: time.Minute}
	of := func(l resultConfig, change func(*resultConfig)) resultConfig {
		change(&l)
		return l
	}
	here := resultConfig{Host: "https://here:6443", Timeout: time.Minute}
	for claim, c := range map[string]struct {
		said      configuration
		variables variables
		want      resultConfig
	}{
		"host with a token": {said: configuration{"host": "https://here:6443", "token": "t\n", "cluster_ca_certificate": p.ca},
			want: of(here, func(l *resultConfig) { l.Token, l.CA = "t", p.ca })},
		"host with a certificate": {said: configuration{"host": "https://here:6443", "client_certificate": string(p.one.Certificate), "client_key": string(p.one.Key), "tls_server_name": "n"},
			want: of(here, func(l *resultConfig) {
				l.Certificate, l.Key, l.ServerName = string(p.one.Certificate), string(p.one.Key), "n"
			})},
		"host with a password, and a time": {said: configuration{"host": "https://here:6443", "username": "u", "password": "p", "insecure": true, "timeout": "5s"},
			want: of(here, func(l *resultConfig) { l.User, l.Password, l.Insecure, l.Timeout = "u", "p", true, 5*time.Second })},
		"host with a plugin": {said: configuration{"host": "https://here:6443", "proxy_url": "socks5://proxy:1080", "exec": map[string]any{
			"api_version": "client.authentication.k8s.io/v1beta1", "command": "c", "args": []any{"a", "b"}, "env": map[string]any{"K": "V", "A": "B"}}},
			want: of(here, func(l *resultConfig) {
				l.Proxy, l.Exec = "socks5://proxy:1080", []string{"client.authentication.k8s.io/v1beta1", "c", "a", "b", "A=B", "K=V"}
			})},
		"a request without bound":                 {said: configuration{"config_path": folder + "/two", "timeout": "0s"}, want: of(core, func(l *resultConfig) { l.Timeout = 0 })},
		"the current context of a file":           {said: configuration{"config_path": folder + "/two"}, want: core},
		"a file in the home":                      {said: configuration{"config_path": "~/two"}, variables: variables{"HOME": "HOMEFOLDER"}, want: core},
		"another context":                         {said: configuration{"config_path": folder + "/two", "config_context": "worker"}, want: worker},
		"the text of a kubeconfig":                {said: configuration{"kubeconfig": twoContexts}, want: core},
		"the first current context of many files": {said: configuration{"config_paths": []any{folder + "/other", folder + "/none", folder + "/two"}}, want: other},
		"a cluster and a user besides the context": {said: configuration{"kubeconfig": twoContexts, "config_context_cluster": "worker", "config_context_auth_info": "core"},
			want: of(worker, func(l *resultConfig) { l.Token, l.Exec = "token-of-core", nil })},
		"a host in place of the kubeconfig's, whose name for TLS goes with it": {said: configuration{"kubeconfig": twoContexts, "host": "https://here:6443"},
			want: of(core, func(l *resultConfig) { l.Host, l.ServerName = "https://here:6443", "" })},
		"an authority in place of the kubeconfig's trust": {said: configuration{"kubeconfig": twoContexts, "cluster_ca_certificate": p.ca},
			want: of(core, func(l *resultConfig) { l.CA, l.Insecure = p.ca, false })},
		"trust in all in place of the kubeconfig's authority": {
			said: configuration{"kubeconfig": strings.Replace(twoContexts, "insecure-skip-tls-verify: true", "certificate-authority-data: "+base64.StdEncoding.EncodeToString([]byte(p.ca)), 1), "insecure": true},
			want: core},
		"no trust, whatever the kubeconfig says": {said: configuration{"kubeconfig": twoContexts, "insecure": false}, want: of(core, func(l *resultConfig) { l.Insecure = false })},
		"a token in place of all that the kubeconfig's user has": {said: configuration{"kubeconfig": twoContexts, "config_context": "worker", "token": "t"},
			want: of(worker, func(l *resultConfig) { l.Token, l.Exec = "t", nil })},
		"a certificate in place of the kubeconfig's token": {
			said: configuration{"kubeconfig": twoContexts, "client_certificate": string(p.one.Certificate), "client_key": string(p.one.Key)},
			want: of(core, func(l *resultConfig) {
				l.Token, l.Certificate, l.Key = "", string(p.one.Certificate), string(p.one.Key)
			})},
		"variables alone": {variables: variables{"KUBE_HOST": "https://here:6443", "KUBE_TOKEN": "t", "KUBE_CLUSTER_CA_CERT_DATA": p.ca, "KUBE_TLS_SERVER_NAME": "n",
			"KUBE_PROXY_URL": "http://proxy:1"}, want: of(here, func(l *resultConfig) { l.Token, l.CA, l.ServerName, l.Proxy = "t", p.ca, "n", "http://proxy:1" })},
		"a certificate of variables": {variables: variables{"KUBE_HOST": "https://here:6443", "KUBE_CLIENT_CERT_DATA": string(p.one.Certificate), "KUBE_CLIENT_KEY_DATA": string(p.one.Key),
			"KUBE_INSECURE": "true"}, want: of(here, func(l *resultConfig) {
			l.Certificate, l.Key, l.Insecure = string(p.one.Certificate), string(p.one.Key), true
		})},
		"a password of variables": {variables: variables{"KUBE_HOST": "https://here:6443", "KUBE_USER": "u", "KUBE_PASSWORD": "p"},
			want: of(here, func(l *resultConfig) { l.User, l.Password = "u", "p" })},
		"a path of a variable, with a context": {variables: variables{"KUBE_CONFIG_PATH": "HOMEFOLDER/two", "KUBE_CTX": "worker"}, want: worker},
		"parts of a context by variables": {variables: variables{"KUBE_CONFIG_PATHS": "HOMEFOLDER/other:HOMEFOLDER/two", "KUBE_CTX_CLUSTER": "worker", "KUBE_CTX_AUTH_INFO": "core"},
			want: of(worker, func(l *resultConfig) { l.Token, l.Exec = "token-of-core", nil })},
		"KUBECONFIG with two files":           {variables: variables{"KUBECONFIG": "HOMEFOLDER/other:HOMEFOLDER/two"}, want: other},
		"KUBECONFIG with a context":           {said: configuration{"config_context": "worker"}, variables: variables{"KUBECONFIG": "HOMEFOLDER/two"}, want: worker},
		"our variable before KUBECONFIG":      {variables: variables{"KUBECONFIG": "HOMEFOLDER/two", "KUBE_CONFIG_PATHS": "HOMEFOLDER/other:HOMEFOLDER/two"}, want: other},
		"the one path before several":         {variables: variables{"KUBE_CONFIG_PATH": "HOMEFOLDER/two", "KUBE_CONFIG_PATHS": "HOMEFOLDER/other"}, want: core},
		"KUBE_HOST before KUBECONFIG":         {variables: variables{"KUBECONFIG": "HOMEFOLDER/two", "KUBE_HOST": "https://here:6443"}, want: here},
		"KUBE_HOST over KUBE_CONFIG_PATH":     {variables: variables{"KUBE_CONFIG_PATH": "HOMEFOLDER/two", "KUBE_HOST": "https://here:6443"}, want: of(core, func(l *resultConfig) { l.Host, l.ServerName = here.Host, "" })},
		"attributes, not variables":           {said: configuration{"host": "https://here:6443", "token": "t"}, variables: variables{"KUBE_HOST": "https://there", "KUBE_TOKEN": "u"}, want: of(here, func(l *resultConfig) { l.Token = "t" })},
		"a plugin, not KUBE_TOKEN":            {said: configuration{"host": "https://here:6443", "exec": map[string]any{"api_version": "client.authentication.k8s.io/v1", "command": "c"}}, variables: variables{"KUBE_TOKEN": "u"}, want: of(here, func(l *resultConfig) { l.Exec = []string{"client.authentication.k8s.io/v1", "c"} })},
		"an authority, not KUBE_INSECURE":     {said: configuration{"host": "https://here:6443", "cluster_ca_certificate": p.ca}, variables: variables{"KUBE_INSECURE": "1"}, want: of(here, func(l *resultConfig) { l.CA = p.ca })},
		"insecure, not an authority":          {said: configuration{"host": "https://here:6443", "insecure": true}, variables: variables{"KUBE_CLUSTER_CA_CERT_DATA": p.ca}, want: of(here, func(l *resultConfig) { l.Insecure = true })},
		"a host, not another kubeconfig":      {said: configuration{"host": "https://here:6443"}, variables: variables{"KUBE_CONFIG_PATH": "HOMEFOLDER/two", "KUBECONFIG": "HOMEFOLDER/two"}, want: here},
		"a kubeconfig, not KUBE_HOST":         {said: configuration{"kubeconfig": twoContexts}, variables: variables{"KUBE_HOST": "https://there", "KUBE_TOKEN": "u", "KUBE_INSECURE": "true"}, want: core},
		"a context, not KUBE_HOST":            {said: configuration{"config_context": "core"}, variables: variables{"KUBECONFIG": "HOMEFOLDER/two", "KUBE_HOST": "https://there"}, want: core},
		"a context, not KUBE_CTX_CLUSTER":     {said: configuration{"kubeconfig": twoContexts, "config_context": "core"}, variables: variables{"KUBE_CTX_CLUSTER": "worker"}, want: core},
		"a kubeconfig by way of a proxy":      {said: configuration{"kubeconfig": twoContexts}, variables: variables{"KUBE_PROXY_URL": "http://proxy:1"}, want: of(core, func(l *resultConfig) { l.Proxy = "http://proxy:1" })},
		"a proxy in place of a broken one":    {said: configuration{"kubeconfig": twoContexts, "config_context_cluster": "bad-proxy", "proxy_url": "http://proxy:1"}, want: resultConfig{Host: "https://worker:6443", Proxy: "http://proxy:1", Token: "token-of-core", Timeout: time.Minute}},
		"a variable that is empty is not set": {said: configuration{"kubeconfig": twoContexts}, variables: variables{"KUBE_CTX": "", "KUBE_PROXY_URL": ""}, want: core},
	} {
		t.Run(claim, func(t *testing.T) {
			config, err := c.said.model(t).Config(c.variables.in(folder))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, readConfig(t, config)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestConfigErrors(t *testing.T) {
	p, folder := newPairs(t), kubeconfigFolder(t)
	for claim, c := range map[string]struct {
		said      configuration
		variables variables
		want      string
	}{
		"nothing is configured, and the home has a kubeconfig": {variables: variables{"HOME": "HOMEFOLDER"}, want: "no cluster is configured: set config_path"},
		"credentials without a cluster":                        {said: configuration{"token": "hidden"}, want: "token is set, but no cluster is configured"},
		"credentials of a variable without a cluster":          {variables: variables{"KUBE_TOKEN": "hidden"}, want: "KUBE_TOKEN is set, but no cluster"},
		"a context without a kubeconfig":                       {said: configuration{"config_context": "core"}, want: "config_context selects from a kubeconfig, but no kubeconfig is configured"},
		"a missing file":                                       {said: configuration{"config_path": "/no/such/file"}, want: "no file /no/such/file exists, but config_path names it"},
		"a context that is not in a file":                      {said: configuration{"config_path": folder + "/two", "config_context": "cor"}, want: `the kubeconfig of config_path has no context "cor"`},
		"missing files":                                        {variables: variables{"KUBECONFIG": "/no/one:/no/two"}, want: "no file /no/one or /no/two exists, but KUBECONFIG names it"},
		"a file that is a folder":                              {said: configuration{"config_path": folder}, want: ", which config_path names: is a directory"},
		"a file of another kind":                               {said: configuration{"config_path": folder + "/garbage"}, want: "/garbage is not a kubeconfig, but config_path names it"},
		"a file that is no kubeconfig":                         {said: configuration{"config_path": folder + "/hidden"}, want: "/hidden is not a kubeconfig"},
		"a missing context":                                    {said: configuration{"kubeconfig": twoContexts, "config_context": "cor"}, want: `kubeconfig has no context "cor": it has core, lost, unknown-user, worker`},
		"a kubeconfig without a current context":               {said: configuration{"kubeconfig": strings.Replace(twoContexts, "current-context: core", "", 1)}, want: "has no current-context: set config_context; it has core"},
		"a missing cluster":                                    {said: configuration{"kubeconfig": twoContexts, "config_context": "lost"}, want: `has no cluster "nowhere": it has bad-proxy, core, worker`},
		"a missing user":                                       {said: configuration{"kubeconfig": twoContexts, "config_context": "unknown-user"}, want: `has no user "no-one": it has core, worker`},
		"a proxy that is none":                                 {said: configuration{"kubeconfig": twoContexts, "config_context_cluster": "bad-proxy"}, want: `the proxy-url of cluster "bad-proxy" in kubeconfig is not a proxy URL`},
		"a variable that is no URL":                            {variables: variables{"KUBE_HOST": "core.example"}, want: "KUBE_HOST is not a URL: use a value like https://"},
		"a variable that is neither true nor false":            {variables: variables{"KUBE_HOST": "https://core", "KUBE_INSECURE": "maybe"}, want: "KUBE_INSECURE is neither true nor false"},
		"variables that are mutually exclusive":                {variables: variables{"KUBE_HOST": "https://core", "KUBE_TOKEN": "hidden", "KUBE_USER": "u", "KUBE_PASSWORD": "hidden"}, want: "KUBE_USER and KUBE_TOKEN are mutually exclusive"},
		"a variable without its other half":                    {variables: variables{"KUBE_HOST": "https://core", "KUBE_CLIENT_CERT_DATA": p.ca}, want: "KUBE_CLIENT_CERT_DATA needs client_key"},
		"in_cluster outside of a pod":                          {said: configuration{"in_cluster": true}, variables: variables{"KUBE_HOST": "https://core"}, want: "in_cluster is true, but Terraform does not run in a pod"},
	} {
		t.Run(claim, func(t *testing.T) {
			config, err := c.said.model(t).Config(c.variables.in(folder))
			if err == nil {
				t.Fatalf("Config() has host %s, want an error", config.Host)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q does not contain %q", err, c.want)
			}
			if strings.Contains(strings.ReplaceAll(err.Error(), folder+"/hidden", ""), "hidden") {
				t.Errorf("error contains a secret: %v", err)
			}
		})
	}
}
