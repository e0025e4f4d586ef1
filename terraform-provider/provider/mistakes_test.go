package provider_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/terraform-provider/connection"
)

// mistaken returns protectors with the attributes of cases, by name, and what Terraform should say of each.
func mistaken(namespace string, cases map[string][2]string) (configuration string) {
	for name, c := range cases {
		configuration += fmt.Sprintf("resource \"breakwater_pod_protector\" %q {\n  namespace = %q\n  name = %q\n  selector = { match_labels = { app = \"web\" } }\n  %s\n}\n",
			name, namespace, name, c[0])
	}
	return configuration
}

func TestMistakesAreErrorsOfThePlan(t *testing.T) {
	onTerraform(t)
	const whole = "must be a whole number from 0 to 2147483647"
	cases := map[string][2]string{
		"fraction":   {"min_available = 2.5", "min_available: must be a number of pods, from 0"},
		"huge":       {"min_available = 1e20", "min_available: must be a number of pods, from 0"},
		"negative":   {"min_available = -1", "min_available: must be a number of pods, from 0"},
		"half-pod":   {"min_available = \"50%\"\n  expected_replicas = 2.5", "expected_replicas: " + whole},
		"int64":      {"min_available = \"50%\"\n  expected_replicas = 3000000000", "expected_replicas: " + whole},
		"float":      {"min_available = \"50%\"\n  expected_replicas = 1e20", "expected_replicas: " + whole},
		"minus":      {"min_available = \"50%\"\n  expected_replicas = -3", "expected_replicas: must be at least 0"},
		"other-pods": {"min_available = 1\n  aggregation_selector = { match_labels = { app = \"api\" } }", "aggregation_selector does not select all pods that selector selects"},
	}
	d := workingDir(t, configured(t, "")+mistaken("shop", cases))
	out, err := d.Try("plan")
	if err == nil {
		t.Errorf("the plan succeeds, want errors:\n%s", out)
	}
	for name, c := range cases {
		_, of, found := strings.Cut(out, "with breakwater_pod_protector."+name+",")
		if of, _, _ = strings.Cut(of, "Error: "); !found || !matchWrapped(c[1]).MatchString(of) {
			t.Errorf("the plan says of %s\n%s\nwant %q", c[0], of, c[1])
		}
	}
	if strings.Contains(out, "always an error in the provider") {
		t.Errorf("the plan blames the provider:\n%s", out)
	}

	d.Write("main.tf", strings.SplitAfter(d.Read("main.tf"), "\n}\n")[0]+configured(t, "variable \"secret\" {\n  sensitive = true\n  default = \"s3cr3t\"\n}\n")+
		mistaken("shop", map[string][2]string{"secret": {"min_available = var.secret"}}))
	out, err = d.Try("plan")
	if err == nil || !matchWrapped("min_available: must be a number of pods, from 0").MatchString(out) || strings.Contains(out, "s3cr3t") {
		t.Errorf("the plan says (%v)\n%s\nwant an error without the sensitive value", err, out)
	}
}

func TestDoubtfulFloorsAreWarningsOfThePlan(t *testing.T) {
	onTerraform(t)
	// Terraform shows one of several warnings with the same summary.
	for _, cases := range []map[string][2]string{{
		"none-may-go":     {"max_unavailable = 0", "The floor allows no removal"},
		"nothing-stays":   {"min_available = 0", "The floor protects nothing"},
		"more-than-exist": {"min_available = 5\n  expected_replicas = 3", "The floor is above the number of expected pods"},
		"confirmed":       {"min_available = 1\n  annotations = { \"breakwater.dev/confirm-release\" = \"yes\" }", "Use true, a date"},
		"all-is-well":     {"min_available = 5\n  expected_replicas = 6", ""},
		"a-hundred":       {"min_available = 100", ""},
		"many-may-go":     {"max_unavailable = 500", ""},
	}, {
		"all-must-stay": {"min_available = \"100%\"", "The floor allows no removal"},
		"all-may-go":    {"max_unavailable = \"100%\"", "The floor protects nothing"},
	}} {
		d := workingDir(t, configured(t, "")+mistaken("shop", cases))
		out := d.Run("plan")
		for name, c := range cases {
			var warned []string
			for _, warning := range strings.Split(out, "Warning: ")[1:] {
				if strings.Contains(warning, "with breakwater_pod_protector."+name+",") && !strings.Contains(warning, "could not be applied") {
					warned = append(warned, warning)
				}
			}
			if c[1] == "" && len(warned) > 0 || c[1] != "" && (len(warned) != 1 || !matchWrapped(c[1]).MatchString(warned[0])) {
				t.Errorf("the plan warns of %s\n%q\nwant %q", c[0], warned, c[1])
			}
		}
	}
}

func TestDoubtfulFloorsOfPoliciesAreWarnings(t *testing.T) {
	onTerraform(t)
	d := workingDir(t, configured(t, `
resource "breakwater_cluster_protection_policy" "it" {
  name  = "doubtful"
  floor = { bands = [{ up_to_replicas = 3, max_unavailable = "0%%" }, { min_available = "0" }] }
}
`))
	out := d.Run("plan")
	for _, want := range []string{"Warning: The floor allows no removal", "Warning: The floor protects nothing"} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan says\n%s\nwant %q", out, want)
		}
	}
}

func TestFailedWaitOnCreateIsAWarning(t *testing.T) {
	onTerraform(t)
	namespace := testplane.Namespace(t)
	config := protectorAt("web", namespace, "2", "wait {}\n  timeouts {\n    create = \"2s\"\n  }")
	d := workingDir(t, configured(t, "")+config)
	out := d.Run("apply", "-auto-approve")
	if !matchWrapped("Warning: PodProtector was applied, but what it waits for did not hold in time").MatchString(out) {
		t.Errorf("the apply says\n%s\nwant a warning", out)
	}
	d.Run("plan", "-detailed-exitcode") // a tainted object would be replaced

	// A data source with a postcondition fails the apply.
	d.Write("main.tf", d.Read("main.tf")+`
data "breakwater_pod_protector" "web" {
  namespace  = breakwater_pod_protector.web.namespace
  name       = breakwater_pod_protector.web.name
  depends_on = [breakwater_pod_protector.web]
  lifecycle {
    postcondition {
      condition     = try(anytrue([for c in self.status.conditions : c.type == "Ready" && c.status == "True"]), false)
      error_message = "The protector is not ready."
    }
  }
}
`)
	wantFailure(t, d, "The protector is not ready.")
	if out := d.Run("show"); strings.Contains(out, "tainted") {
		t.Errorf("the state has a tainted object:\n%s", out)
	}
}

// A provider that did not know a field neither stored it nor owned it.
func TestUpgradeShowsNoDefaultOfNewFields(t *testing.T) {
	onTerraform(t)
	namespace := testplane.Namespace(t)
	d := workingDir(t, configured(t, "")+protectorAt("web", namespace, "2", ""))
	d.Run("apply", "-auto-approve")
	former := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}, "minAvailable": int64(2),
		"operations": []any{"Delete", "Evict", "Relabel"}, "criterion": "Available",
	}}}
	former.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodProtector"))
	former.SetNamespace(namespace)
	former.SetName("web")
	if err := testplane.Client(t).Apply(t.Context(), client.ApplyConfigurationFromUnstructured(former), client.FieldOwner(connection.DefaultFieldManager)); err != nil {
		t.Fatal(err)
	}
	state := d.Read("terraform.tfstate")
	without := strings.Replace(state, `"core_outage": "Deny"`, `"core_outage": null`, 1)
	if without == state {
		t.Fatalf("the state has no core_outage:\n%s", state)
	}
	d.Write("terraform.tfstate", without)
	if out, err := d.Try("plan", "-detailed-exitcode"); err != nil {
		t.Errorf("the plan shows changes that no user made: %v\n%s", err, out)
	}
}

func TestFilesAreReadWhenFirstNeeded(t *testing.T) {
	onTerraform(t)
	namespace := testplane.Namespace(t)
	path := filepath.Join(t.TempDir(), "written-by-the-apply")
	d := workingDir(t, fmt.Sprintf(`
provider "breakwater" {
  config_path = %q
}
resource "terraform_data" "kubeconfig" {
  provisioner "local-exec" {
    command = "cp %s %s"
  }
}
`, path, testplane.Kubeconfig(t), path)+protectorAt("web", namespace, "2", "depends_on = [terraform_data.kubeconfig]"))
	out := d.Run("apply", "-auto-approve")
	if !strings.Contains(out, "2 added") {
		t.Errorf("the apply says\n%s\nwant 2 added", out)
	}
	d.Run("plan", "-detailed-exitcode")
}
