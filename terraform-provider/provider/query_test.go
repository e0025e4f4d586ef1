package provider_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/querycheck"
	"github.com/hashicorp/terraform-plugin-testing/querycheck/queryfilter"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"

	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestTerraformQueryFindsProtectors(t *testing.T) {
	onTerraform(t)
	namespace := testplane.Namespace(t)
	theirProtector(t, namespace, "web")
	web := queryfilter.ByDisplayName(knownvalue.StringExact(namespace + "/web"))
	resource.UnitTest(t, resource.TestCase{
		TerraformVersionChecks:   []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_14_0)}, // terraform query needs 1.14
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

// TestQueryOutputImportsWithoutChanges imports many objects as a user does: query, generate, plan.
func TestQueryOutputImportsWithoutChanges(t *testing.T) {
	namespace := testplane.Namespace(t)
	objects, c := oneOfEach(namespace), testplane.Client(t)
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
	d := terraform.New(t, terraform.Terraform, configured(t, ""))
	d.Write("all.tfquery.hcl", lists.String())
	if out := d.Run("version"); !matchText(`v1\.(1[4-9]|[2-9]\d)\.`).MatchString(out) {
		t.Skip("terraform query is of Terraform 1.14, and this is " + out)
	}
	d.Run("query", "-generate-config-out=generated.tf")
	if out := d.Run("plan"); !strings.Contains(out, fmt.Sprintf("Plan: %d to import, 0 to add, 0 to change, 0 to destroy.", len(objects))) {
		t.Errorf("plan has changes besides imports:\n%s\nof\n%s", out, d.Read("generated.tf"))
	}
}
