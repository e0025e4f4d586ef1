package provider_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/querycheck"
	"github.com/hashicorp/terraform-plugin-testing/querycheck/queryfilter"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"

	"github.com/breakwater-k8s/breakwater/internal/testplane"
)

func TestTerraformQueryFindsProtectors(t *testing.T) {
	t.Setenv("TF_ACC_TERRAFORM_PATH", program(t, "terraform"))
	namespace := testplane.Namespace(t)
	protector(t, namespace, "web")
	web := queryfilter.ByDisplayName(knownvalue.StringExact(namespace + "/web"))
	resource.UnitTest(t, resource.TestCase{
		TerraformVersionChecks:   []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_14_0)}, // terraform query is of 1.14
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{
			{Config: configured(t, "")},
			{
				Query: true,
				Config: fmt.Sprintf(`
list "breakwater_pod_protector" "here" {
  provider         = breakwater
  include_resource = true
  config {
    namespace = %q
  }
}`, namespace),
				QueryResultChecks: []querycheck.QueryResultCheck{
					querycheck.ExpectLength("breakwater_pod_protector.here", 1),
					querycheck.ExpectIdentity("breakwater_pod_protector.here", map[string]knownvalue.Check{
						"namespace": knownvalue.StringExact(namespace), "name": knownvalue.StringExact("web"),
					}),
					querycheck.ExpectResourceDisplayName("breakwater_pod_protector.here", web, knownvalue.StringExact(namespace+"/web")),
					querycheck.ExpectResourceKnownValues("breakwater_pod_protector.here", web, []querycheck.KnownValueCheck{
						{Path: tfjsonpath.New("min_available"), KnownValue: knownvalue.StringExact("3")},
						{Path: tfjsonpath.New("deletion_protection"), KnownValue: knownvalue.Bool(true)},
					}),
				},
			},
		},
	})
}

// Bulk import, as a user does it: query, generate, plan.
func TestWhatAQueryGeneratesIsImportedWithoutAChange(t *testing.T) {
	namespace := testplane.Namespace(t)
	objects, c := oneOfEach(namespace), testplane.Client(t)
	folder := filepath.Join(t.TempDir(), "work")
	var lists strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(objects)) {
		if err := c.Create(t.Context(), objects[kind]); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Delete(context.Background(), objects[kind]) })
		where := "label_selector = \"team=shop\""
		if objects[kind].GetNamespace() != "" {
			where = fmt.Sprintf("namespace = %q", namespace)
		}
		fmt.Fprintf(&lists, "list %q \"all\" {\n  provider = breakwater\n  config {\n    %s\n  }\n}\n", kind, where)
	}
	terraform := installed(t, folder, map[string]string{
		"main.tf":         "terraform {\n  required_providers {\n    breakwater = { source = \"breakwater-k8s/breakwater\" }\n  }\n}\n" + configured(t, ""),
		"all.tfquery.hcl": lists.String(),
	})
	if out := terraform("version"); !says(`v1\.(1[4-9]|[2-9]\d)\.`).MatchString(out) {
		t.Skip("terraform query is of Terraform 1.14, and this is " + out)
	}
	terraform("query", "-generate-config-out=generated.tf")
	if out := terraform("plan"); !strings.Contains(out, "Plan: 4 to import, 0 to add, 0 to change, 0 to destroy.") {
		generated, _ := os.ReadFile(filepath.Join(folder, "generated.tf"))
		t.Errorf("the plan is not just to import:\n%s\nof\n%s", out, generated)
	}
}

// installed builds the provider as a program, and returns what runs Terraform with it in a folder with some files.
func installed(t *testing.T, folder string, files map[string]string) (terraform func(arguments ...string) (out string)) {
	t.Helper()
	programs, settings := t.TempDir(), filepath.Join(t.TempDir(), "terraform.rc")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(programs, "terraform-provider-breakwater"), "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	override := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"breakwater-k8s/breakwater\" = %q\n  }\n  direct {}\n}\n", programs)
	if err := os.WriteFile(settings, []byte(override), 0o600); err != nil {
		t.Fatal(err)
	}
	path := program(t, "terraform")
	return func(arguments ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), path, append(arguments, "-no-color")...)
		command.Dir, command.Env = folder, append(os.Environ(), "TF_CLI_CONFIG_FILE="+settings, "CHECKPOINT_DISABLE=1")
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("terraform %v: %v\n%s", arguments, err, out)
		}
		return string(out)
	}
}
