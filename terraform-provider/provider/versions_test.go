package provider_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// features returns what uses each feature in the table of docs/index.md. The functions return the output of the program, and an error if it
// lacks the feature.
func features(t *testing.T, namespace string) map[string]func(d *terraform.Dir) (string, error) {
	t.Helper()
	return map[string]func(d *terraform.Dir) (string, error){
		"resources, data sources, functions and write-only arguments": func(d *terraform.Dir) (string, error) {
			d.Write("feature.tf", fmt.Sprintf(`
data "breakwater_pod_protectors" "all" {}
output "floor" { value = provider::breakwater::floor("70%%", null, 101) }
variable "kubeconfig" {
  type      = string
  ephemeral = true
  default   = %[2]q
}
resource "breakwater_cell" "worker" {
  name                  = %[1]q
  kubeconfig_secret_ref = { namespace = %[1]q, name = "cell" }
  kubeconfig_wo         = var.kubeconfig
}`, namespace, kubeconfigWith("token")))
			return d.Try("plan")
		},
		"identities, and imports by them": func(d *terraform.Dir) (string, error) {
			d.Write("feature.tf", fmt.Sprintf(`
import {
  to       = breakwater_pod_protector.web
  identity = { namespace = %[1]q, name = "web" }
}
resource "breakwater_pod_protector" "web" {
  namespace     = %[1]q
  name          = "web"
  selector      = { match_labels = {} }
  min_available = "3"
}`, namespace))
			return d.Try("plan")
		},
		"list resources, for `terraform query`": func(d *terraform.Dir) (string, error) {
			d.Write("feature.tf", "")
			d.Write("all.tfquery.hcl", "list \"breakwater_pod_protector\" \"all\" {\n provider = breakwater\n}")
			return d.Try("query")
		},
		"actions": func(d *terraform.Dir) (string, error) {
			d.Write("feature.tf", "action \"breakwater_release\" \"web\" {\n config {\n namespace = \"shop\"\n name = \"web\"\n }\n}")
			return d.Try("validate")
		},
	}
}

// TestPageStatesVersions compares the table of docs/index.md with what the oldest and the newest programs do.
func TestPageStatesVersions(t *testing.T) {
	page, err := os.ReadFile("../docs/index.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n| feature | Terraform | OpenTofu |\n| --- | --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	namespace := testplane.Namespace(t)
	theirProtector(t, namespace, "web")
	uses := features(t, namespace)
	rows := regexp.MustCompile(`(?m)^\| (.*) \| (\S+) \| (\S+) \|$`).FindAllStringSubmatch(table, -1)
	if len(rows) != len(uses) {
		t.Fatalf("the table has %d features, want %d:\n%s", len(rows), len(uses), table)
	}
	for column, programs := range [][]string{2: {terraform.OldestTerraform, terraform.Terraform}, 3: {terraform.OldestOpenTofu, terraform.OpenTofu}} {
		for _, program := range programs {
			t.Run(program, func(t *testing.T) {
				t.Parallel()
				d := terraform.New(t, program, configured(t, ""))
				number := regexp.MustCompile(`v(\d\S+)`).FindStringSubmatch(d.Run("version"))[1]
				for _, row := range rows {
					use, ok := uses[row[1]]
					if !ok {
						t.Errorf("no test uses the feature %q", row[1])
						continue
					}
					want := row[column] != "no" && version.MustParseGeneric(number).AtLeast(version.MustParseGeneric(row[column]))
					if out, err := use(d); (err == nil) != want || !want && !lacksFeature.MatchString(out) {
						t.Errorf("%s %s has %q, according to the page: %t; got %v\n%s", program, number, row[1], want, err, out)
					}
				}
			})
		}
	}
}

// lacksFeature matches what the programs report for commands, blocks and arguments that they do not know.
var lacksFeature = regexp.MustCompile(`Unsupported (block type|argument)|no command named`)
