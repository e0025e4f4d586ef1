package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/echoprovider"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/pki"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/terraform-provider/provider"
)

// worker returns the second cluster. Its ServiceAccount breakwater-access has all permissions. The ServiceAccount's namespace exists in the
// first cluster too.
func worker(t *testing.T, namespace string) (config *rest.Config, kubeconfig string) {
	t.Helper()
	config = namespaceInSecond(t, namespace)
	testplane.AsServiceAccount(t, config, namespace, "breakwater-access", "cluster-admin")
	kubeconfig = filepath.Join(t.TempDir(), "worker")
	if err := os.WriteFile(kubeconfig, testplane.KubeconfigOf(t, config), 0o600); err != nil {
		t.Fatal(err)
	}
	return config, kubeconfig
}

// cellOf returns a Cell whose kubeconfig comes from the ephemeral resource. The alias configures the worker.
func cellOf(t *testing.T, namespace, alias string) string {
	t.Helper()
	return fmt.Sprintf(`
provider "breakwater" {
  config_path = %[1]q
}
provider "breakwater" {
  alias = "worker"
%[3]s
}
ephemeral "breakwater_worker_kubeconfig" "this" {
  provider           = breakwater.worker
  service_account    = { namespace = %[2]q }
  expiration_seconds = 600
}
resource "breakwater_cell" "worker" {
  name                  = %[2]q
  kubeconfig_secret_ref = { namespace = %[2]q, name = "cell", key = "kubeconfig" }
  kubeconfig_wo         = ephemeral.breakwater_worker_kubeconfig.this.kubeconfig
}
`, testplane.Kubeconfig(t), namespace, alias)
}

// storedKubeconfig returns the kubeconfig of the cell that is stored in the core.
func storedKubeconfig(t *testing.T, namespace string) *rest.Config {
	t.Helper()
	secret, err := kubernetes.NewForConfigOrDie(testplane.Config(t)).CoreV1().Secrets(namespace).Get(t.Context(), "cell", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestWorkerKubeconfigForCell(t *testing.T) {
	withAll(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		config, kubeconfig := worker(t, namespace)
		log := filepath.Join(t.TempDir(), "log")
		r := workingDir(t, cellOf(t, namespace, fmt.Sprintf("config_path = %q", kubeconfig)), "TF_LOG=TRACE", "TF_LOG_PATH="+log)
		said := r.Run("plan", "-out=plan")
		said += r.Run("apply", "plan")

		core := storedKubeconfig(t, namespace)
		if core.Host != config.Host || core.Insecure || len(core.CAData) == 0 {
			t.Errorf("the core has a kubeconfig of %s", core.Host)
		}
		found, err := clusters.ClusterOf(t.Context(), kubernetes.NewForConfigOrDie(core))
		if err != nil {
			t.Fatalf("kubeconfig of the Cell does not work: %v", err)
		}
		if want, err := clusters.ClusterOf(t.Context(), kubernetes.NewForConfigOrDie(config)); err != nil || found != want {
			t.Errorf("kubeconfig connects to cluster %s, want %s (%v)", found, want, err)
		}
		raw, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for where, text := range map[string]string{
			"the state": r.Read("terraform.tfstate"), "the plan": r.Run("show", "-json", "plan"), "the output": said, "the log": string(raw),
		} {
			if strings.Contains(text, core.BearerToken) {
				t.Errorf("the token is in %s", where)
			}
			if !strings.Contains(text, "breakwater_cell") {
				t.Errorf("%s was not written: it has %d bytes", where, len(text))
			}
		}
	})
}

func TestWorkerKubeconfigOfUnknownClusterIsDeferred(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		_, kubeconfig := worker(t, namespace)
		configuration := cellOf(t, namespace, "config_path = terraform_data.made.output")
		if strings.HasSuffix(t.Name(), "/tofu") {
			configuration = strings.Replace(configuration, "expiration_seconds = 600", "depends_on = [terraform_data.made]", 1)
		}
		r := workingDir(t, configuration+fmt.Sprintf("resource \"terraform_data\" \"made\" {\n  input = %q\n}\n", kubeconfig))
		r.Run("apply", "-auto-approve")
		if _, err := kubernetes.NewForConfigOrDie(storedKubeconfig(t, namespace)).CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("kubeconfig of the Cell does not work: %v", err)
		}
	})
}

// runEcho runs a step with an ephemeral resource and stores its result in the echo resource.
func runEcho(t *testing.T, step resource.TestStep) {
	t.Helper()
	step.Config += "\nprovider \"echo\" {\n  data = ephemeral.breakwater_worker_kubeconfig.this\n}\nresource \"echo\" \"this\" {}\n"
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: map[string]func() (tfprotov6.ProviderServer, error){
			"breakwater": providerserver.NewProtocol6WithError(provider.New("test")()), "echo": echoprovider.NewProviderServer(),
		},
		Steps: []resource.TestStep{step},
	})
}

// accessAccount creates the ServiceAccount that the chart creates.
func accessAccount(t *testing.T) {
	t.Helper()
	core := kubernetes.NewForConfigOrDie(testplane.Config(t)).CoreV1()
	meta := metav1.ObjectMeta{Namespace: "breakwater-system", Name: "breakwater-access"}
	_, err := core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: meta.Namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	accounts := core.ServiceAccounts(meta.Namespace)
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = accounts.Delete(context.Background(), meta.Name, metav1.DeleteOptions{}) })
}

// result returns the attributes that the echo resource stored.
func result(s *terraform.State) map[string]string {
	return s.RootModule().Resources["echo.this"].Primary.Attributes
}

func TestWorkerKubeconfigDefaults(t *testing.T) {
	authority, err := pki.NewAuthority("balancer")
	if err != nil {
		t.Fatal(err)
	}
	forEachProgram(t, func(t *testing.T) {
		accessAccount(t)
		admin := testplane.Config(t)
		for claim, c := range map[string]struct {
			said, server, authority string
			seconds                 time.Duration
		}{
			"defaults": {"", admin.Host, string(admin.CAData), 3600},
			"all attributes": {fmt.Sprintf("service_account = { name = \"breakwater-access\", namespace = \"breakwater-system\" }\n  server = \"https://balancer.example\"\n"+
				"  certificate_authority = %q\n  expiration_seconds = 700\n  audiences = [\"core\"]", authority.PEM), "https://balancer.example", string(authority.PEM), 700},
		} {
			t.Run(claim, func(t *testing.T) {
				begun := time.Now()
				runEcho(t, resource.TestStep{
					Config: configured(t, "ephemeral \"breakwater_worker_kubeconfig\" \"this\" {\n  %s\n}\n", c.said),
					Check: func(s *terraform.State) error {
						all := result(s)
						config, err := clientcmd.RESTConfigFromKubeConfig([]byte(all["data.kubeconfig"]))
						if err != nil {
							return err
						}
						if config.Host != c.server || string(config.CAData) != c.authority || config.BearerToken == "" || config.BearerToken != all["data.token"] {
							return fmt.Errorf("kubeconfig has server %s", config.Host)
						}
						if all["data.server"] != c.server || all["data.service_account.namespace"] != "breakwater-system" {
							encoded, _ := json.Marshal(all)
							return fmt.Errorf("result does not contain the defaults: %s", encoded)
						}
						expires, err := time.Parse(time.RFC3339, all["data.expires_at"])
						if after := expires.Sub(begun); err != nil || after < (c.seconds-60)*time.Second || after > (c.seconds+60)*time.Second {
							return fmt.Errorf("token expires at %s, requested %d seconds: %w", all["data.expires_at"], c.seconds, err)
						}
						return nil
					},
				})
			})
		}
	})
}

func TestWorkerKubeconfigErrors(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace, admin := testplane.Namespace(t), testplane.Config(t)
		unprivileged := testplane.AsServiceAccount(t, admin, namespace, "no-permissions", "")
		by := func(configuration string) string { return "provider \"breakwater\" {\n  " + configuration + "\n}\n" }
		kubeconfig := func(config *rest.Config) string {
			return by(fmt.Sprintf("kubeconfig = %q", testplane.KubeconfigOf(t, config)))
		}
		for claim, c := range map[string]struct{ provider, said, want string }{
			"no such account":  {kubeconfig(admin), fmt.Sprintf("service_account = { namespace = %q }", namespace), "install the chart breakwater there with role: worker (or single) and access.enabled: true"},
			"no permission":    {kubeconfig(unprivileged), fmt.Sprintf("service_account = { namespace = %q, name = \"no-permissions\" }", namespace), "needs permission to create serviceaccounts/token there"},
			"too short a time": {kubeconfig(admin), "expiration_seconds = 599", "must be between 600 and"},
			"no URL":           {kubeconfig(admin), "server = \"worker.example:6443\"", "must be a URL like https://worker.example:6443"},
			"no certificate":   {kubeconfig(admin), "certificate_authority = \"ca.crt\"", "It must contain PEM certificates"},
			"no verification":  {by(fmt.Sprintf("host = %q\n  insecure = true\n  token = \"t\"", admin.Host)), "", "The provider does not verify the API server (insecure), but other clients should"},
			"no cluster":       {by("config_path = \"/no/such/file\""), "", "No cluster to ask for a token"},
			"an invalid token": {by(fmt.Sprintf("host = %q\n  cluster_ca_certificate = %q\n  token = \"t\"", admin.Host, admin.CAData)), "", "does not accept the provider's credentials"},
		} {
			t.Run(claim, func(t *testing.T) {
				runEcho(t, resource.TestStep{
					Config:      c.provider + fmt.Sprintf("ephemeral \"breakwater_worker_kubeconfig\" \"this\" {\n  %s\n}\n", c.said),
					ExpectError: matchWrapped(c.want),
				})
			})
		}
	})
}
