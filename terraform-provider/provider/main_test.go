package provider_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/terraform-provider/provider"
)

func TestMain(m *testing.M) {
	code := testplane.Run(m)
	if err := terraform.RemoveProvider(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// withBoth runs a test with the newest Terraform and again with the newest OpenTofu, because their behavior could differ. Both are the real programs
// and run the provider of this test binary.
func withBoth(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	withEach(t, test, terraform.Terraform, terraform.OpenTofu)
}

// withAll is withBoth, and also runs the test with the oldest supported version of each.
func withAll(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	withEach(t, test, terraform.OldestTerraform, terraform.Terraform, terraform.OldestOpenTofu, terraform.OpenTofu)
}

func withEach(t *testing.T, test func(t *testing.T), programs ...string) {
	t.Helper()
	for _, name := range programs {
		t.Run(name, func(t *testing.T) {
			on(t, name)
			test(t)
		})
	}
}

// forEachProgram runs a test with Terraform. It also runs the test with OpenTofu if TOFU_ALL is set. These tests cover the provider, which
// serves both programs with the same protocol.
func forEachProgram(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv("TOFU_ALL") != "" {
		withBoth(t, test)
		return
	}
	onTerraform(t)
	test(t)
}

// onTerraform runs a test with Terraform only, because OpenTofu lacks the feature or behaves the same.
func onTerraform(t *testing.T) {
	t.Helper()
	on(t, terraform.Terraform)
}

// programVariable names the program of the test, for workingDir.
const programVariable = "BREAKWATER_TEST_PROGRAM"

func on(t *testing.T, name string) {
	t.Helper()
	registry := "registry.terraform.io"
	if strings.HasPrefix(name, terraform.OpenTofu) {
		registry = "registry.opentofu.org"
	}
	t.Setenv(programVariable, name)
	t.Setenv("TF_ACC_TERRAFORM_PATH", terraform.Program(t, name))
	t.Setenv("TF_ACC_PROVIDER_HOST", registry)
	// The test ignores the settings of the user who runs it, and does not check for newer versions.
	t.Setenv("TF_CLI_CONFIG_FILE", os.DevNull)
	t.Setenv("CHECKPOINT_DISABLE", "1")
}

// steps runs steps in one working directory of Terraform, and destroys the remaining resources at the end.
func steps(t *testing.T, all ...resource.TestStep) {
	t.Helper()
	runCase(t, resource.TestCase{Steps: all})
}

func runCase(t *testing.T, test resource.TestCase) {
	t.Helper()
	test.ProtoV6ProviderFactories = factories()
	resource.UnitTest(t, test)
}

func factories() map[string]func() (tfprotov6.ProviderServer, error) {
	return map[string]func() (tfprotov6.ProviderServer, error){
		"breakwater": func() (tfprotov6.ProviderServer, error) { return provider.Server("test")(), nil },
	}
}

// configured returns a configuration whose provider points to the control plane of the tests.
func configured(t *testing.T, format string, arguments ...any) string {
	t.Helper()
	return fmt.Sprintf("provider \"breakwater\" {\n  config_path = %q\n}\n", testplane.Kubeconfig(t)) + fmt.Sprintf(format, arguments...)
}

func writeFile(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// workingDir returns a working directory in which the program of the test runs the provider as users do, with one process for each alias.
// The resources are destroyed at the end.
func workingDir(t *testing.T, configuration string, variables ...string) *terraform.Dir {
	t.Helper()
	d := terraform.New(t, os.Getenv(programVariable), configuration)
	d.Variables = variables
	t.Cleanup(func() { _, _ = d.Try("destroy", "-auto-approve") })
	return d
}

// matchWrapped matches words regardless of how Terraform wraps them.
func matchWrapped(words string) *regexp.Regexp {
	return regexp.MustCompile(regexp.MustCompile(`\s+`).ReplaceAllString(regexp.QuoteMeta(words), `[\s│]+`))
}
