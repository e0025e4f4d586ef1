package clusters_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

func TestParseNamed(t *testing.T) {
	for argument, want := range map[string]struct {
		name, kubeconfig string
	}{
		"worker-1=/etc/worker-1":   {"worker-1", "/etc/worker-1"},
		"core=in-cluster":          {"core", clusters.InCluster},
		"core=/etc/with=sign.yaml": {"core", "/etc/with=sign.yaml"},
	} {
		name, connection, err := clusters.ParseNamed(argument)
		if err != nil {
			t.Errorf("%s: %v", argument, err)
		}
		if diff := cmp.Diff(clusters.Connection{Kubeconfig: want.kubeconfig}, connection); name != want.name || diff != "" {
			t.Errorf("%s: name %q, want %q; connection (-want +got):\n%s", argument, name, want.name, diff)
		}
	}
	for _, argument := range []string{"", "=", "worker-1", "worker-1=", "=/etc/worker-1"} {
		if _, _, err := clusters.ParseNamed(argument); err == nil || !strings.Contains(err.Error(), "is not NAME=KUBECONFIG (or NAME=in-cluster)") {
			t.Errorf("%q: error %v, want it to say how it is written", argument, err)
		}
	}
}

const twoContexts = `apiVersion: v1
kind: Config
clusters:
- {name: one, cluster: {server: "https://one.example:6443"}}
- {name: two, cluster: {server: "https://two.example:6443"}}
users:
- {name: admin, user: {token: secret}}
contexts:
- {name: first, context: {cluster: one, user: admin}}
- {name: second, context: {cluster: two, user: admin}}
current-context: first
`

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfig(t *testing.T) {
	path := file(t, twoContexts)
	impersonated := rest.ImpersonationConfig{}
	for claim, test := range map[string]struct {
		connection clusters.Connection
		host       string
		as         rest.ImpersonationConfig
	}{
		"the current context": {clusters.Connection{Kubeconfig: path}, "https://one.example:6443", impersonated},
		"another context":     {clusters.Connection{Kubeconfig: path, Context: "second"}, "https://two.example:6443", impersonated},
		"as a user":           {clusters.Connection{Kubeconfig: path, As: "eve"}, "https://one.example:6443", rest.ImpersonationConfig{UserName: "eve"}},
		"as a user of a group": {
			clusters.Connection{Kubeconfig: path, As: "eve", AsGroups: []string{"ops"}}, "https://one.example:6443",
			rest.ImpersonationConfig{UserName: "eve", Groups: []string{"ops"}},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			config, err := test.connection.Config("webhook")
			if err != nil {
				t.Fatal(err)
			}
			if config.Host != test.host || config.BearerToken != "secret" {
				t.Errorf("host %s, want %s with its token", config.Host, test.host)
			}
			if diff := cmp.Diff(test.as, config.Impersonate); diff != "" {
				t.Errorf("impersonation (-want +got):\n%s", diff)
			}
			if config.QPS >= 0 || config.RateLimiter != nil {
				t.Errorf("QPS %v with limiter %v, want no limit: a storm must not wait for us", config.QPS, config.RateLimiter)
			}
			if !strings.HasPrefix(config.UserAgent, "breakwater-webhook/") {
				t.Errorf("user agent %q does not name the component", config.UserAgent)
			}
		})
	}
}

func TestConfigUsesKubectlDefault(t *testing.T) {
	t.Setenv("KUBECONFIG", file(t, twoContexts))
	config, err := clusters.Connection{Context: "second"}.Config("generator")
	if err != nil || config.Host != "https://two.example:6443" {
		t.Errorf("config %v, error %v; want that of KUBECONFIG", config, err)
	}
}

func TestConfigErrorsNameKubeconfigAndProblem(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "absent"))
	absent, text, empty := filepath.Join(t.TempDir(), "absent"), file(t, "not a kubeconfig"), file(t, "")
	whole := file(t, twoContexts)
	dangling := file(t, strings.Replace(twoContexts, "cluster: one,", "cluster: three,", 1))
	for claim, test := range map[string]struct {
		connection clusters.Connection
		want       []string
	}{
		"a file that does not exist":     {clusters.Connection{Kubeconfig: absent}, []string{absent, "no such file"}},
		"a folder":                       {clusters.Connection{Kubeconfig: t.TempDir()}, []string{"is a directory"}},
		"a file that is no kubeconfig":   {clusters.Connection{Kubeconfig: text}, []string{text}},
		"an empty file":                  {clusters.Connection{Kubeconfig: empty}, []string{empty, "it is empty"}},
		"a context that does not exist":  {clusters.Connection{Kubeconfig: whole, Context: "third"}, []string{whole, `"third"`}},
		"a cluster that does not exist":  {clusters.Connection{Kubeconfig: dangling}, []string{dangling, "its context names a cluster that it does not define"}},
		"nothing that kubectl would use": {clusters.Connection{}, []string{"KUBECONFIG or ~/.kube/config"}},
		"groups without a user":          {clusters.Connection{Kubeconfig: whole, AsGroups: []string{"ops"}}, []string{"groups to impersonate need a user"}},
		"in-cluster, in no cluster":      {clusters.Connection{Kubeconfig: clusters.InCluster}, []string{"in-cluster configuration", "KUBERNETES_SERVICE_HOST"}},
	} {
		t.Run(claim, func(t *testing.T) {
			_, err := test.connection.Config("webhook")
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q, want it to say %q", err, part)
				}
			}
		})
	}
}
