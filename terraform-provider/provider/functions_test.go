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
		steps(t, resource.TestStep{Config: `
output "floor" { value = provider::breakwater::floor("70%", null, 101) }
output "fewer" { value = provider::breakwater::floor(null, 3, 10) }
output "number" { value = provider::breakwater::floor("40", null, null) }
`, ConfigStateChecks: []statecheck.StateCheck{
			statecheck.ExpectKnownOutputValue("floor", knownvalue.Int64Exact(71)),
			statecheck.ExpectKnownOutputValue("fewer", knownvalue.Int64Exact(7)),
			statecheck.ExpectKnownOutputValue("number", knownvalue.Int64Exact(40)),
		}})
	})
}

func TestFunctionsWithUnknownArguments(t *testing.T) {
	withBoth(t, func(t *testing.T) {
		steps(t, resource.TestStep{
			Config: `
resource "terraform_data" "later" { input = "70%" }
output "floor" { value = provider::breakwater::floor(terraform_data.later.output, null, 100) }
`,
			ConfigPlanChecks:  resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectUnknownOutputValue("floor")}},
			ConfigStateChecks: []statecheck.StateCheck{statecheck.ExpectKnownOutputValue("floor", knownvalue.Int64Exact(70))},
		})
	})
}

func TestFunctionErrors(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		denied := func(call, why string) resource.TestStep {
			return resource.TestStep{Config: "output \"it\" { value = provider::breakwater::" + call + " }\n", ExpectError: matchText(why)}
		}
		steps(t,
			denied(`floor("70%", "30%", 100)`, "give either min_available or max_unavailable"),
			denied(`floor("70%", null, null)`, "expected_replicas is null"),
		)
	})
}
