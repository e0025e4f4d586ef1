package provider_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/terraform-provider/provider"
)

// former is a resource of another provider that an object is moved from. The object replaces %s in fields.
type former struct {
	name, kind, fields string
	// manager is the field manager that the other provider leaves behind.
	manager string
}

func formers() []former {
	return []former{
		{"plain", "kubernetes_manifest", "manifest = %s", "Terraform"},
		{"named", "kubernetes_manifest", "manifest = %s\n field_manager {\n name = \"platform\"\n }", "platform"},
		{"client", "kubectl_manifest", "yaml_body = yamlencode(%s)", "HashiCorp"},
		{"server", "kubectl_manifest", "yaml_body = yamlencode(%s)\n server_side_apply = true", "kubectl"},
	}
}

// created returns the configuration in which the other provider creates an object.
func (f former) created(format string, arguments ...any) string {
	object := fmt.Sprintf(format, arguments...)
	return fmt.Sprintf("resource %q %q {\n%s\n}\n", f.kind, f.name, fmt.Sprintf(f.fields, object))
}

// moved returns the configuration in which Breakwater's provider manages the object.
func (f former) moved(kind, format string, arguments ...any) string {
	return fmt.Sprintf("moved {\n from = %[2]s.%[1]s\n to = breakwater_%[3]s.%[1]s\n}\nresource \"breakwater_%[3]s\" %[1]q {\n%[4]s\n}\n",
		f.name, f.kind, kind, fmt.Sprintf(format, arguments...))
}

// of concatenates the configurations of all formers.
func of(each func(f former) string) string {
	var all strings.Builder
	for _, f := range formers() {
		all.WriteString(each(f))
	}
	return all.String()
}

// runMoves runs steps with the other providers present. kubectl is the real provider, from a mirror that contains nothing else, so
// that Terraform can download nothing.
func runMoves(t *testing.T, test resource.TestCase) {
	t.Helper()
	head := configured(t, "provider \"kubectl\" {\n config_path = %q\n}\n", testplane.Kubeconfig(t))
	for i := range test.Steps {
		test.Steps[i].Config = head + test.Steps[i].Config
	}
	const version = "1.19.0"
	mirror := t.TempDir()
	folder := filepath.Join(mirror, cmp.Or(os.Getenv("TF_ACC_PROVIDER_HOST"), "registry.terraform.io"), "gavinbunney/kubectl", version, runtime.GOOS+"_"+runtime.GOARCH)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(terraform.Program(t, "terraform-provider-kubectl"), filepath.Join(folder, "terraform-provider-kubectl_v"+version)); err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(mirror, "terraformrc")
	writeFile(t, settings, fmt.Appendf(nil, "provider_installation {\n filesystem_mirror {\n path = %q\n include = [\"gavinbunney/kubectl\"]\n }\n}\n", mirror))
	t.Setenv("TF_CLI_CONFIG_FILE", settings)
	t.Setenv("HOME", t.TempDir()) // kubectl caches its discovery here
	test.ExternalProviders = map[string]resource.ExternalProvider{"kubectl": {Source: "gavinbunney/kubectl", VersionConstraint: version}}
	test.ProtoV6ProviderFactories = map[string]func() (tfprotov6.ProviderServer, error){
		"breakwater": providerserver.NewProtocol6WithError(provider.New("test")()),
		"kubernetes": providerserver.NewProtocol6WithError(manifests{client: testplane.Client(t)}),
	}
	resource.UnitTest(t, test)
}
