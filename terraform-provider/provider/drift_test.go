package provider_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

const web = "breakwater_pod_protector.web"

// protector returns a configuration of one protector that can be destroyed.
func protector(t *testing.T, namespace, fields string) string {
	t.Helper()
	return configured(t, `
resource "breakwater_pod_protector" "web" {
  namespace           = %q
  name                = "web"
  deletion_protection = false
  %s
}`, namespace, fields)
}

// editOutside changes the protector web as a user who edits it would.
func editOutside(t *testing.T, namespace string, change func(*v1alpha1.PodProtector)) func() {
	t.Helper()
	return func() { edit(t, namespace, "web", change) }
}

func edit(t *testing.T, namespace, name string, change func(*v1alpha1.PodProtector)) {
	t.Helper()
	c, p := testplane.Client(t), &v1alpha1.PodProtector{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, p); err != nil {
		t.Fatal(err)
	}
	change(p)
	if err := c.Update(t.Context(), p, client.FieldOwner("by-hand")); err != nil {
		t.Fatal(err)
	}
}

var nothingToDo = resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}}

func TestFieldsOfOtherManagersAreNoDrift(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		config := protector(t, namespace, `
  selector      = { match_labels = { app = "web" } }
  min_available = "3"
  labels        = { team = "shop" }
  operations    = ["Delete"]`)
		steps(t,
			resource.TestStep{Config: config},
			resource.TestStep{
				PreConfig: editOutside(t, namespace, func(p *v1alpha1.PodProtector) {
					p.Labels["owner"], p.Annotations = "other-team", map[string]string{"note": "by hand"}
					p.Finalizers = append(p.Finalizers, "example.com/hold")
					p.Spec.ExpectedReplicas = new(int32(5))
					p.Spec.AdmissionHistory.CompactThreshold = new(int32(7))
					p.Spec.Operations = append(p.Spec.Operations, v1alpha1.OperationUpdate)
				}),
				Config: config, ConfigPlanChecks: nothingToDo,
			},
			resource.TestStep{
				PreConfig: editOutside(t, namespace, func(p *v1alpha1.PodProtector) { p.Finalizers = nil }),
				Config:    config, ConfigPlanChecks: nothingToDo,
				Check: resource.ComposeAggregateTestCheckFunc(
					resource.TestCheckResourceAttr(web, "labels.%", "1"),
					resource.TestCheckNoResourceAttr(web, "expected_replicas"),
					resource.TestCheckNoResourceAttr(web, "admission_history.compact_threshold"),
					resource.TestCheckNoResourceAttr(web, "annotations.note"),
				),
			},
		)
	})
}

func TestChangedOwnFieldsAreDriftAndRepaired(t *testing.T) {
	changes := map[string]func(*v1alpha1.PodProtector){
		"floor":             func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = v1alpha1.Pods(0) },
		"selector":          func(p *v1alpha1.PodProtector) { p.Spec.Selector.MatchLabels["tier"] = "none" },
		"default":           func(p *v1alpha1.PodProtector) { p.Spec.Criterion = v1alpha1.CriterionScheduled },
		"operation-gone":    func(p *v1alpha1.PodProtector) { p.Spec.Operations = []v1alpha1.Operation{v1alpha1.OperationDelete} },
		"label":             func(p *v1alpha1.PodProtector) { p.Labels["team"] = "none" },
		"label-gone":        func(p *v1alpha1.PodProtector) { delete(p.Labels, "team") },
		"tuning":            func(p *v1alpha1.PodProtector) { p.Spec.AdmissionHistory.MaxConcurrentLag = 9 },
		"exempt-pods-gone":  func(p *v1alpha1.PodProtector) { p.Spec.ExemptPodSelector = nil },
		"nothing-but-notes": func(p *v1alpha1.PodProtector) { p.Annotations = map[string]string{"note": "by hand"} },
	}
	names := slices.Sorted(maps.Keys(changes))
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		config := configured(t, `
resource "breakwater_pod_protector" "web" {
  count               = %d
  namespace           = %q
  name                = split(" ", %q)[count.index]
  selector            = { match_labels = { app = "web" } }
  exempt_pod_selector = { match_labels = { canary = "true" } }
  min_available       = "3"
  labels              = { team = "shop" }
  admission_history   = { max_concurrent_lag = 3 }
  force_conflicts     = true
  deletion_protection = false
}`, len(names), namespace, strings.Join(names, " "))
		var repairs []plancheck.PlanCheck
		for i, name := range names {
			action := plancheck.ResourceActionUpdate
			if name == "nothing-but-notes" {
				action = plancheck.ResourceActionNoop
			}
			repairs = append(repairs, plancheck.ExpectResourceAction(fmt.Sprintf("%s[%d]", web, i), action))
		}
		steps(t,
			resource.TestStep{Config: config},
			resource.TestStep{
				PreConfig: func() {
					for name, change := range changes {
						edit(t, namespace, name, change)
					}
				},
				Config: config, ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: repairs},
			},
			resource.TestStep{Config: config, ConfigPlanChecks: nothingToDo},
		)
	})
}

func TestConflictNamesManagerAndField(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		config := func(floor, more string) string {
			return protector(t, namespace, "selector = { match_labels = {} }\n min_available = \""+floor+"\"\n"+more)
		}
		steps(t,
			resource.TestStep{Config: config("3", "")},
			resource.TestStep{
				PreConfig: editOutside(t, namespace, func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = v1alpha1.Pods(1) }),
				Config:    config("4", ""), ExpectError: matchWrapped(`The field manager "by-hand" owns min_available`),
			},
			// A plan reports the conflict too, but the conflict blocks neither a plan nor a destroy.
			resource.TestStep{Config: config("4", ""), PlanOnly: true, ExpectNonEmptyPlan: true},
			resource.TestStep{Config: config("4", "force_conflicts = true"), Check: resource.TestCheckResourceAttr(web, "min_available", "4")},
			resource.TestStep{Config: config("5", ""), Check: resource.TestCheckResourceAttr(web, "min_available", "5")},
		)
	})
}

func TestDestroyIgnoresConflicts(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		d := workingDir(t, protector(t, namespace, "selector = { match_labels = {} }\n min_available = \"4\""))
		d.Run("apply", "-auto-approve")
		editOutside(t, namespace, func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = v1alpha1.Pods(1) })()
		if out := d.Run("plan"); !strings.Contains(out, `The field manager "by-hand" owns min_available`) || !strings.Contains(out, `"1" -> "4"`) {
			t.Errorf("plan reports neither the drift nor the conflict:\n%s", out)
		}
		d.Run("destroy", "-auto-approve")
	})
}

func TestCreateRefusesExistingObject(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		p := &v1alpha1.PodProtector{Spec: v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{}, MinAvailable: v1alpha1.Pods(1)}}
		p.Namespace, p.Name = namespace, "web"
		if err := testplane.Client(t).Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		steps(t,
			resource.TestStep{Config: protector(t, namespace, "selector = { match_labels = {} }\n min_available = \"1\""), ExpectError: matchWrapped("already exists")},
			resource.TestStep{Config: protector(t, namespace, "selector = { match_labels = {} }\n min_available = \"2\"\n force_conflicts = true"),
				Check: resource.TestCheckResourceAttr(web, "min_available", "2")},
		)
	})
}

// The provider does not validate a selector before it is known, that is, before another resource is applied.
func TestPlanWithUnknownValues(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		steps(t, resource.TestStep{
			Config: `
resource "terraform_data" "app" {
  input = "web"
}
resource "terraform_data" "floor" {
  input = "7"
}
` + protector(t, namespace, `
  selector = {
    match_labels      = { app = terraform_data.app.output }
    match_expressions = [{ key = "a", operator = "In", values = [terraform_data.app.output] }]
  }
  min_available = terraform_data.floor.output
  labels        = { app = terraform_data.app.output }
  operations    = [terraform_data.app.output == "web" ? "Delete" : "Evict"]`),
			Check: resource.ComposeAggregateTestCheckFunc(
				resource.TestCheckResourceAttr(web, "min_available", "7"),
				resource.TestCheckResourceAttr(web, "selector.match_labels.app", "web"),
				resource.TestCheckResourceAttr(web, "operations.#", "1"),
			),
		}, resource.TestStep{
			// The provider still reports an error in the known part.
			Config: `
resource "terraform_data" "app" {
  input = "other"
}
` + protector(t, namespace, `
  selector      = { match_labels = { app = terraform_data.app.output } }
  min_available = "1"
  max_unavailable = "1"`),
			ExpectError: matchWrapped("give either min_available or max_unavailable"),
		})
	})
}
