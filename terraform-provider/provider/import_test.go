package provider_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// An object that kubectl created can be imported. A configuration with the same values does not change it.
func TestImportKeepsObject(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		p := &v1alpha1.PodProtector{Spec: v1alpha1.PodProtectorSpec{
			Selector:     &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}},
			MinAvailable: v1alpha1.Pods(3), MinReadySeconds: 5, Operations: []v1alpha1.Operation{v1alpha1.OperationEvict},
		}}
		p.Namespace, p.Name = namespace, "web"
		p.Labels = map[string]string{"team": "shop", v1alpha1.LabelSourceKind: "Deployment"}
		p.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}
		if err := testplane.Client(t).Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		config := protector(t, namespace, `
  labels            = { team = "shop" }
  selector          = { match_labels = { app = "web" } }
  min_available     = "3"
  min_ready_seconds = 5
  operations        = ["Evict"]`)
		block := "\nimport {\n to = breakwater_pod_protector.web\n id = \"" + namespace + "/web\"\n}\n"
		steps(t,
			resource.TestStep{Config: config + block, ConfigPlanChecks: resource.ConfigPlanChecks{
				// deletion_protection exists only in Terraform, and differs.
				PreApply:             []plancheck.PlanCheck{plancheck.ExpectResourceAction(web, plancheck.ResourceActionUpdate)},
				PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()},
			}},
		)
	})
}

func TestImportErrors(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		config := protector(t, namespace, "selector = { match_labels = {} }\n min_available = \"1\"")
		for id, want := range map[string]string{
			"web":              "Import it by NAMESPACE/NAME",
			namespace + "/Web": "Import it by NAMESPACE/NAME",
		} {
			steps(t, resource.TestStep{Config: config, ResourceName: web, ImportState: true, ImportStateId: id, ExpectError: matchWrapped(want)})
		}
		away := unreachableConfig + strings.TrimPrefix(config, configured(t, ""))
		impatientSteps(t, resource.TestStep{Config: away, ResourceName: web, ImportState: true, ImportStateId: namespace + "/web", ExpectError: matchWrapped("connection refused")})
	})
}
