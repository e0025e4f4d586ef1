package provider_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// floorIn returns the minAvailable of a namespace's protector in a cluster.
func floorIn(t *testing.T, cluster *rest.Config, namespace string) string {
	t.Helper()
	c, err := client.New(cluster, client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	protector := &v1alpha1.PodProtector{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "web"}, protector); err != nil {
		t.Fatal(err)
	}
	return protector.Spec.MinAvailable.String()
}

// fourWays returns aliases that log in with each kind of secret, a protector for each, and a Cell with one of them.
func fourWays(t *testing.T, namespace string, admin *rest.Config, plugin string) string {
	t.Helper()
	all := fmt.Sprintf(`
variable "token" {
  type      = string
  sensitive = true
  ephemeral = true
}
variable "key" {
  type      = string
  sensitive = true
  ephemeral = true
}
# Terraform 1.11.0 cannot write a plan if the value of a write-only argument is both ephemeral and sensitive.
variable "kubeconfig" {
  type      = string
  ephemeral = true
}
variable "secret" {
  type      = string
  sensitive = true
  ephemeral = true
}
locals {
  host = %q
  ca   = %q
}
provider "breakwater" {
  alias                  = "token"
  host                   = local.host
  cluster_ca_certificate = local.ca
  token                  = var.token
}
provider "breakwater" {
  alias                  = "key"
  host                   = local.host
  cluster_ca_certificate = local.ca
  client_certificate     = %q
  client_key             = var.key
}
resource "breakwater_cell" "kubeconfig" {
  provider              = breakwater.token
  name                  = %[5]q
  kubeconfig_secret_ref = { namespace = %[5]q, name = "cell" }
  kubeconfig_wo         = var.kubeconfig
}
provider "breakwater" {
  alias      = "kubeconfig"
  kubeconfig = var.kubeconfig
}
provider "breakwater" {
  alias                  = "plugin"
  host                   = local.host
  cluster_ca_certificate = local.ca
  exec {
    api_version = "client.authentication.k8s.io/v1"
    command     = %[4]q
    args        = ["core"]
    env         = { SECRET = var.secret }
  }
}
`, admin.Host, admin.CAData, admin.CertData, plugin, namespace)
	for _, alias := range []string{"token", "key", "kubeconfig", "plugin"} {
		one := strings.Replace(protectorIn(namespace, "provider = breakwater."+alias), `"web" {`, fmt.Sprintf(`%q {`, alias), 1)
		all += strings.Replace(one, `name                = "web"`, fmt.Sprintf("name = %q", alias), 1)
	}
	return all
}

func TestNoSecretIsStored(t *testing.T) {
	withAll(t, func(t *testing.T) {
		namespace, admin := testplane.Namespace(t), testplane.Config(t)
		byToken := account(t, admin, namespace)
		byPlugin := testplane.AsServiceAccount(t, admin, namespace, "plugin", "cluster-admin")
		byKubeconfig := testplane.AsServiceAccount(t, admin, namespace, "kubeconfig", "cluster-admin")
		plugin := script(t, byPlugin.BearerToken)
		log := filepath.Join(t.TempDir(), "log")
		r := workingDir(t, fourWays(t, namespace, admin, plugin),
			"TF_VAR_token="+byToken.BearerToken, "TF_VAR_key="+string(admin.KeyData), "TF_VAR_kubeconfig="+string(testplane.KubeconfigOf(t, byKubeconfig)),
			"TF_VAR_secret="+pluginSecret, "TF_LOG=TRACE", "TF_LOG_PATH="+log)
		said := r.Run("plan", "-out=plan")
		said += r.Run("apply", "plan")
		raw, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		written := map[string]string{"the state": r.Read("terraform.tfstate"), "the plan": r.Run("show", "-json", "plan"), "the log": string(raw), "the output": said}
		key := strings.Split(string(admin.KeyData), "\n")[1]
		for name, secret := range map[string]string{
			"the token": byToken.BearerToken, "the key": key, "the key in base64": base64.StdEncoding.EncodeToString(admin.KeyData)[40:80],
			"the kubeconfig's token": byKubeconfig.BearerToken, "the plugin's token": byPlugin.BearerToken, "the plugin's environment": pluginSecret,
		} {
			for where, text := range written {
				if i := strings.Index(text, secret); i >= 0 {
					t.Errorf("%s is in %s: ...%s...", name, where, text[max(0, i-200):i])
				}
			}
		}
		for where, text := range written {
			if !strings.Contains(text, "breakwater_pod_protector") {
				t.Errorf("%s was not written: it has %d bytes", where, len(text))
			}
		}
	})
}
