package provider_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestProtectorLifecycle(t *testing.T) {
	withBoth(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		protector := func(floor string) string {
			return configured(t, `
resource "breakwater_pod_protector" "web" {
  namespace           = %q
  name                = "web"
  selector            = { match_labels = { app = "web" } }
  min_available       = %q
  deletion_protection = false
}`, namespace, floor)
		}
		const web = "breakwater_pod_protector.web"
		steps(t,
			resource.TestStep{
				Config: protector("70%"),
				Check: resource.ComposeAggregateTestCheckFunc(
					resource.TestCheckResourceAttr(web, "min_available", "70%"),
					resource.TestCheckResourceAttr(web, "criterion", "Available"),
					resource.TestCheckResourceAttr(web, "id", namespace+"/web"),
				),
				ConfigPlanChecks: resource.ConfigPlanChecks{PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
			},
			resource.TestStep{
				Config:           protector("40"),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(web, plancheck.ResourceActionUpdate)}},
				Check:            resource.TestCheckResourceAttr(web, "min_available", "40"),
			},
			resource.TestStep{ResourceName: web, ImportState: true, ImportStateId: namespace + "/web", ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"deletion_protection"}},
		)
	})
}
