package provider_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/pki"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// protectorIn returns a protector that uses the provider configured before it.
func protectorIn(namespace, more string) string { return protectorNamed("web", namespace, "web", more) }

func protectorNamed(resource, namespace, name, more string) string {
	return fmt.Sprintf(`
resource "breakwater_pod_protector" %q {
  namespace           = %q
  name                = %q
  selector            = { match_labels = { app = "web" } }
  min_available       = "1"
  deletion_protection = false
  %s
}
`, resource, namespace, name, more)
}

// protectorExists checks that the cluster of a configuration has the protector.
func protectorExists(t *testing.T, config *rest.Config, namespace string) resource.TestCheckFunc {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return func(*terraform.State) error {
		return c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "web"}, &v1alpha1.PodProtector{})
	}
}

// account returns the client configuration of a ServiceAccount with all permissions and with its token.
func account(t *testing.T, admin *rest.Config, namespace string) *rest.Config {
	t.Helper()
	return testplane.AsServiceAccount(t, admin, namespace, "terraform", "cluster-admin")
}

// connecting starts a proxy that accepts all connections and counts them.
func connecting(t *testing.T) (address string, connections *atomic.Int32) {
	t.Helper()
	connections = &atomic.Int32{}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		there, err := net.Dial("tcp", r.Host)
		if r.Method != http.MethodConnect || err != nil {
			http.Error(w, "not that way", http.StatusBadGateway)
			return
		}
		connections.Add(1)
		w.WriteHeader(http.StatusOK)
		here, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			there.Close()
			return
		}
		go func() {
			_, _ = io.Copy(there, buffered)
			there.Close()
		}()
		_, _ = io.Copy(here, there)
		here.Close()
	}))
	t.Cleanup(proxy.CloseClientConnections)
	return proxy.URL, connections
}

// pluginSecret is the secret that the exec plugin requires.
const pluginSecret = "sesame-7193"

// script writes an exec plugin that prints a token if its arguments and environment are right.
func script(t *testing.T, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log-in")
	text := fmt.Sprintf("#!/bin/sh\nset -e\ntest \"$1 $SECRET\" = \"core "+pluginSecret+"\"\n"+
		"echo '{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \"status\": {\"token\": \"%s\"}}'\n", token)
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConnectionAttributes(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace, admin := testplane.Namespace(t), testplane.Config(t)
		user := account(t, admin, namespace)
		proxy, connections := connecting(t)
		server := fmt.Sprintf("host = %q\n  cluster_ca_certificate = %q\n", admin.Host, admin.CAData)
		ways := map[string]string{
			"a token":               server + fmt.Sprintf("token = %q", user.BearerToken),
			"a client certificate":  server + fmt.Sprintf("client_certificate = %q\n  client_key = %q", admin.CertData, admin.KeyData),
			"the text of a file":    fmt.Sprintf("kubeconfig = %q", testplane.KubeconfigOf(t, admin)),
			"a proxy":               fmt.Sprintf("kubeconfig = %q\n  proxy_url = %q\n timeout = \"20s\"", testplane.KubeconfigOf(t, admin), proxy),
			"the name in TLS":       server + fmt.Sprintf("tls_server_name = \"localhost\"\n  token = %q", user.BearerToken),
			"trust in all":          fmt.Sprintf("host = %q\n  insecure = true\n  token = %q", admin.Host, user.BearerToken),
			"another's credentials": fmt.Sprintf("kubeconfig = %q\n  token = %q", testplane.KubeconfigOf(t, admin), user.BearerToken),
			"an exec plugin": server + fmt.Sprintf("exec {\n    api_version = \"client.authentication.k8s.io/v1\"\n    command = %q\n    args = [\"core\"]\n    env = { SECRET = %q }\n  }",
				script(t, user.BearerToken), pluginSecret),
		}
		configuration, wanted := "", []string{}
		for way, fields := range ways {
			name := strings.ToLower(strings.NewReplacer(" ", "-", "'", "").Replace(way))
			wanted = append(wanted, name)
			configuration += fmt.Sprintf("provider \"breakwater\" {\n  alias = %q\n  %s\n}\n", name, fields) +
				protectorNamed(name, namespace, name, "provider = breakwater."+name)
		}
		workingDir(t, configuration).Run("apply", "-auto-approve")
		made := &v1alpha1.PodProtectorList{}
		if err := testplane.Client(t).List(t.Context(), made, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range made.Items {
			names = append(names, p.Name)
		}
		slices.Sort(wanted)
		if diff := cmp.Diff(wanted, names); diff != "" {
			t.Errorf("connections that worked (-want +got):\n%s", diff)
		}
		if connections.Load() == 0 {
			t.Error("no connection used the proxy")
		}
	})
}

func TestConnectionVariables(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace, admin := testplane.Namespace(t), testplane.Config(t)
		user := account(t, admin, namespace)
		for way, variables := range map[string]map[string]string{
			"two files, the first with the server, the second with the user": {"KUBECONFIG": strings.Join(splitKubeconfig(t, testplane.KubeconfigOf(t, admin)), string(filepath.ListSeparator))},
			"a file":  {"KUBE_CONFIG_PATH": testplane.Kubeconfig(t)},
			"a token": {"KUBE_HOST": admin.Host, "KUBE_CLUSTER_CA_CERT_DATA": string(admin.CAData), "KUBE_TOKEN": user.BearerToken},
		} {
			t.Run(way, func(t *testing.T) {
				for name, value := range variables {
					t.Setenv(name, value)
				}
				steps(t, resource.TestStep{Config: "provider \"breakwater\" {}\n" + protectorIn(namespace, ""), Check: protectorExists(t, admin, namespace)})
			})
		}
	})
}

// splitKubeconfig splits a kubeconfig into two files. The second contains the users.
func splitKubeconfig(t *testing.T, raw []byte) []string {
	t.Helper()
	servers, err := clientcmd.Load(raw)
	if err != nil {
		t.Fatal(err)
	}
	users := servers.DeepCopy()
	servers.AuthInfos = nil
	users.Clusters, users.Contexts, users.CurrentContext = nil, nil, ""
	folder := t.TempDir()
	paths := []string{filepath.Join(folder, "servers"), filepath.Join(folder, "users")}
	if err := clientcmd.WriteToFile(*servers, paths[0]); err != nil {
		t.Fatal(err)
	}
	if err := clientcmd.WriteToFile(*users, paths[1]); err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestConnectionErrors(t *testing.T) {
	authority, err := pki.NewAuthority("other")
	if err != nil {
		t.Fatal(err)
	}
	forEachProgram(t, func(t *testing.T) {
		namespace, admin := testplane.Namespace(t), testplane.Config(t)
		by := func(format string, arguments ...any) string {
			return "provider \"breakwater\" {\n  " + fmt.Sprintf(format, arguments...) + "\n}\n"
		}
		protector := protectorIn(namespace, "timeouts {\n    create = \"3s\"\n  }")
		for claim, c := range map[string][]resource.TestStep{
			"a contradiction": {{Config: by("config_path = \"a\"\n  kubeconfig = \"\"") + protector, PlanOnly: true, ExpectError: matchWrapped("kubeconfig is empty: remove it")}},
			"another CA": {{Config: by("host = %q\n  token = \"t\"\n  cluster_ca_certificate = %q", admin.Host, authority.PEM) + protector,
				ExpectError: matchWrapped("The provider trusts no CA of the API server's certificate: check host, and set cluster_ca_certificate")}},
			"a token that is none": {{Config: by("host = %q\n  cluster_ca_certificate = %q\n  token = \"hidden\"", admin.Host, admin.CAData) + protector,
				ExpectError: matchWrapped("The cluster does not accept the provider's credentials: they are wrong, or have expired.")}},
			"nothing at all": {
				{Config: by("") + protector, PlanOnly: true, ExpectNonEmptyPlan: true},
				{Config: by("") + protector, ExpectError: matchWrapped("no cluster is configured: set config_path, kubeconfig or host")},
			},
			"a file that does not exist yet": {
				{Config: by("config_path = \"/no/such/file\"") + protector, PlanOnly: true, ExpectNonEmptyPlan: true},
				{Config: by("config_path = \"/no/such/file\"") + protector, ExpectError: matchWrapped("no file /no/such/file exists, but config_path names it")},
			},
		} {
			t.Run(claim, func(t *testing.T) {
				for _, name := range []string{"KUBECONFIG", "KUBE_CONFIG_PATH", "KUBE_CONFIG_PATHS", "KUBE_HOST"} {
					t.Setenv(name, "")
				}
				steps(t, c...)
			})
		}
	})
}
