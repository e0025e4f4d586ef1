package provider_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
)

func TestFunctionsNeedNoCluster(t *testing.T) {
	withBoth(t, func(t *testing.T) {
		outputs := map[string]knownvalue.Check{
			"decoded":   knownvalue.StringExact("web of shop, 9007199254740993, true"),
			"multi":     knownvalue.StringExact("Cell,PodProtector"),
			"encoded":   knownvalue.StringExact("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n"),
			"several":   knownvalue.StringExact("apiVersion: v1\nkind: A\n---\napiVersion: v1\nkind: B\n"),
			"again":     knownvalue.Bool(true),
			"chosen":    knownvalue.Bool(true),
			"expressed": knownvalue.Bool(false),
			"all":       knownvalue.Bool(true),
			"none":      knownvalue.Bool(false),
			"floor":     knownvalue.Int64Exact(71),
			"fewer":     knownvalue.Int64Exact(7),
			"number":    knownvalue.Int64Exact(40),
		}
		checks := make([]statecheck.StateCheck, 0, len(outputs))
		for name, value := range outputs {
			checks = append(checks, statecheck.ExpectKnownOutputValue(name, value))
		}
		steps(t, resource.TestStep{Config: `
locals {
  protector = provider::breakwater::manifest_decode(<<-EOT
    # a protector
    apiVersion: breakwater.dev/v1alpha1
    kind: PodProtector
    metadata: {namespace: shop, name: web}
    spec: {expectedReplicas: 9007199254740993, minAvailable: yes}
  EOT
  )
  selector = { match_labels = { app = "web" }, match_expressions = [{ key = "tier", operator = "In", values = ["front"] }] }
}
output "decoded" { value = "${local.protector.metadata.name} of ${local.protector.metadata.namespace}, ${local.protector.spec.expectedReplicas}, ${local.protector.spec.minAvailable}" }
output "multi" {
  value = join(",", provider::breakwater::manifest_decode_multi("{apiVersion: v1, kind: Cell}\n---\n{apiVersion: v1, kind: PodProtector}")[*].kind)
}
output "encoded" { value = provider::breakwater::manifest_encode({ kind = "Namespace", apiVersion = "v1", metadata = { name = "shop", labels = null } }) }
output "several" { value = provider::breakwater::manifest_encode([{ kind = "A", apiVersion = "v1" }, { kind = "B", apiVersion = "v1" }]) }
output "again" { value = provider::breakwater::manifest_decode(provider::breakwater::manifest_encode(local.protector)) == local.protector }
output "chosen" { value = provider::breakwater::selector_matches(local.selector, { app = "web", tier = "front" }) }
output "expressed" { value = provider::breakwater::selector_matches(local.selector, { app = "web", tier = "back" }) }
output "all" { value = provider::breakwater::selector_matches({}, null) }
output "none" { value = provider::breakwater::selector_matches(true ? null : local.selector, { app = "web" }) }
output "floor" { value = provider::breakwater::floor("70%", null, 101) }
output "fewer" { value = provider::breakwater::floor(null, 3, 10) }
output "number" { value = provider::breakwater::floor("40", null, null) }
`, ConfigStateChecks: checks})
	})
}

func TestFunctionsWithUnknownArguments(t *testing.T) {
	withBoth(t, func(t *testing.T) {
		names := []string{"encoded", "chosen", "floor", "decoded"}
		unknown := make([]plancheck.PlanCheck, 0, len(names))
		for _, name := range names {
			unknown = append(unknown, plancheck.ExpectUnknownOutputValue(name))
		}
		steps(t, resource.TestStep{
			Config: `
resource "terraform_data" "later" { input = "web" }
locals { later = terraform_data.later.output }
output "encoded" { value = provider::breakwater::manifest_encode({ apiVersion = "v1", kind = "A", metadata = { name = local.later } }) }
output "chosen" { value = provider::breakwater::selector_matches({ match_labels = { app = local.later } }, { app = "web" }) }
output "floor" { value = provider::breakwater::floor(replace(local.later, "web", "70%"), null, 100) }
output "decoded" { value = provider::breakwater::manifest_decode("{apiVersion: v1, kind: ${local.later}}").kind }
`,
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: unknown},
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownOutputValue("encoded", knownvalue.StringExact("apiVersion: v1\nkind: A\nmetadata:\n  name: web\n")),
				statecheck.ExpectKnownOutputValue("chosen", knownvalue.Bool(true)),
				statecheck.ExpectKnownOutputValue("floor", knownvalue.Int64Exact(70)),
				statecheck.ExpectKnownOutputValue("decoded", knownvalue.StringExact("web")),
			},
		})
	})
}

func TestFunctionErrors(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		refused := func(call, why string) resource.TestStep {
			return resource.TestStep{Config: "output \"it\" { value = provider::breakwater::" + call + " }\n", ExpectError: matchText(why)}
		}
		steps(t,
			refused(`manifest_decode("{apiVersion: v1, kind: A}\n---\n{apiVersion: v1, kind: B}")`, "The text contains 2 manifests .* manifest_decode_multi"),
			refused(`manifest_encode("text")`, "A manifest must be an object"),
			refused(`selector_matches({ match_expressions = [{ key = "a", operator = "In" }] }, {})`, `selector.match_expressions\[0\].values: .* at least one value for In`),
			refused(`floor("70%", "30%", 100)`, "give either min_available or max_unavailable"),
			refused(`floor("70%", null, null)`, "expected_replicas is null"),
		)
	})
}
