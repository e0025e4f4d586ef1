package provider_test

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// protectors returns the protectors that the formers created, keyed by the name of the former.
func protectors(t *testing.T, namespace string) map[string]*v1alpha1.PodProtector {
	t.Helper()
	all := map[string]*v1alpha1.PodProtector{}
	for _, f := range formers() {
		all[f.name] = &v1alpha1.PodProtector{}
		if err := testplane.Client(t).Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: f.name}, all[f.name]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// manifestOf returns a protector as a user of another provider would write it.
func manifestOf(namespace string) func(f former) string {
	return func(f former) string {
		return f.created(`{
  apiVersion = "breakwater.dev/v1alpha1"
  kind       = "PodProtector"
  metadata   = { namespace = %q, name = %q, labels = { "app.kubernetes.io/name" = "web", team = "shop" } }
  spec       = { selector = { matchLabels = { app = "web" } }, exemptPodSelector = { matchLabels = { canary = "true" } }, minAvailable = 3 }
}`, namespace, f.name)
	}
}

// protectorOf returns the same protector for Breakwater's provider.
func protectorOf(namespace, floor, more string) func(f former) string {
	return func(f former) string {
		return f.moved("pod_protector", `
  namespace     = %q
  name          = %q
  selector      = { match_labels = { app = "web" } }
  min_available = %q
  %s`, namespace, f.name, floor, more)
	}
}

const sameAsBefore = `
  labels              = { "app.kubernetes.io/name" = "web", team = "shop" }
  exempt_pod_selector = { match_labels = { canary = "true" } }`

func TestMoveTakesOwnership(t *testing.T) {
	withAll(t, func(t *testing.T) {
		namespace, made := testplane.Namespace(t), map[string]types.UID{}
		// The configuration omits the label team and the exempted pods.
		config := of(protectorOf(namespace, "5", "labels = { \"app.kubernetes.io/name\" = \"web\" }\n deletion_protection = false"))
		var updates []plancheck.PlanCheck
		for _, f := range formers() {
			updates = append(updates, plancheck.ExpectResourceAction("breakwater_pod_protector."+f.name, plancheck.ResourceActionUpdate))
		}
		runMoves(t, resource.TestCase{
			Steps: []resource.TestStep{
				{Config: of(manifestOf(namespace)), Check: func(*terraform.State) error {
					for name, p := range protectors(t, namespace) {
						made[name] = p.UID
					}
					return nil
				}},
				{
					PreConfig: func() { othersSet(t, namespace) },
					Config:    of(protectorOf(namespace, "3", sameAsBefore)), ConfigPlanChecks: nothingToDo,
					Check: func(s *terraform.State) error {
						for name, uid := range made {
							if got := s.RootModule().Resources["breakwater_pod_protector."+name].Primary.Attributes["uid"]; got != string(uid) {
								t.Errorf("%s: the UID in the state is %q, and was %q", name, got, uid)
							}
						}
						return nil
					},
				},
				{Config: config, ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: updates}, Check: func(*terraform.State) error {
					for _, f := range formers() {
						f.isOurs(t, made[f.name], protectors(t, namespace)[f.name])
					}
					return nil
				}},
				{
					PreConfig: func() { formerManagersApplyAgain(t, namespace) },
					Config:    config, ExpectError: regexp.MustCompile(`(?s)(` + matchWrapped("owns min_available").String() + `.*){4}`),
				},
			},
			CheckDestroy: func(*terraform.State) error {
				err := testplane.Client(t).Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "client"}, &v1alpha1.PodProtector{})
				if !apierrors.IsNotFound(err) {
					return fmt.Errorf("it is still there: %w", err)
				}
				return nil
			},
		})
	})
}

// othersSet sets values that the manifests omit, as another field manager.
func othersSet(t *testing.T, namespace string) {
	t.Helper()
	for _, p := range protectors(t, namespace) {
		p.Labels["owner"], p.Spec.ExpectedReplicas = "other-team", new(int32(7))
		if err := testplane.Client(t).Update(t.Context(), p, client.FieldOwner("by-hand")); err != nil {
			t.Fatal(err)
		}
	}
}

// isOurs checks a protector that was moved and then changed. Values removed from the configuration must be deleted, values of
// other managers must stay, and the former manager must own nothing.
func (f former) isOurs(t *testing.T, made types.UID, p *v1alpha1.PodProtector) {
	t.Helper()
	if p.UID != made || p.Spec.MinAvailable.String() != "5" {
		t.Errorf("%s: UID %s (was %s), floor %s", f.name, p.UID, made, p.Spec.MinAvailable)
	}
	if p.Spec.ExemptPodSelector != nil || p.Labels["team"] != "" || len(p.Annotations) > 0 {
		t.Errorf("%s: there is still exemptPodSelector %v, labels %v, annotations %v", f.name, p.Spec.ExemptPodSelector, p.Labels, p.Annotations)
	}
	if p.Labels["owner"] != "other-team" || p.Labels["app.kubernetes.io/name"] != "web" || p.Spec.ExpectedReplicas == nil {
		t.Errorf("%s: values of other managers are lost: labels %v, expectedReplicas %v", f.name, p.Labels, p.Spec.ExpectedReplicas)
	}
	for _, entry := range p.ManagedFields {
		if entry.Manager == f.manager {
			t.Errorf("%s: %s owns %s", f.name, entry.Manager, entry.FieldsV1.GetRawString())
		}
	}
}

// formerManagersApplyAgain sets floors as the former managers. By now they are unrelated to Terraform.
func formerManagersApplyAgain(t *testing.T, namespace string) {
	t.Helper()
	all := protectors(t, namespace)
	for _, f := range formers() {
		all[f.name].Spec.MinAvailable = v1alpha1.Pods(1)
		if err := testplane.Client(t).Update(t.Context(), all[f.name], client.FieldOwner(f.manager)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMovedObjectConflictsWithOtherManagers(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		runMoves(t, resource.TestCase{Steps: []resource.TestStep{
			{Config: of(manifestOf(namespace))},
			{Config: of(protectorOf(namespace, "3", sameAsBefore)), ConfigPlanChecks: nothingToDo},
			{
				PreConfig: func() {
					for _, p := range protectors(t, namespace) {
						p.Spec.MinAvailable = v1alpha1.Pods(1)
						if err := testplane.Client(t).Update(t.Context(), p, client.FieldOwner("by-hand")); err != nil {
							t.Fatal(err)
						}
					}
				},
				Config: of(protectorOf(namespace, "4", sameAsBefore)), ExpectError: matchWrapped(`The field manager "by-hand" owns min_available`),
			},
			{
				Config: of(protectorOf(namespace, "4", sameAsBefore+"\n force_conflicts = true\n deletion_protection = false")),
				Check: func(*terraform.State) error {
					for name, p := range protectors(t, namespace) {
						if p.Spec.MinAvailable.String() != "4" {
							t.Errorf("%s has floor %s", name, p.Spec.MinAvailable)
						}
					}
					return nil
				},
			},
		}})
	})
}

func TestMoveCell(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		prefix := testplane.Namespace(t)
		cell := func(staleAfter string) string {
			return of(func(f former) string {
				return f.moved("cell", "name = \"%s-%s\"\n namespaces = [\"shop\"]\n stale_after = %q", prefix, f.name, staleAfter)
			})
		}
		runMoves(t, resource.TestCase{Steps: []resource.TestStep{
			{Config: of(func(f former) string {
				return f.created(`{
  apiVersion = "breakwater.dev/v1alpha1"
  kind       = "Cell"
  metadata   = { name = "%s-%s" }
  spec       = { namespaces = ["shop"], staleAfter = "90s" }
}`, prefix, f.name)
			})},
			{Config: cell("90s"), ConfigPlanChecks: nothingToDo},
			{Config: cell("2m"), Check: func(*terraform.State) error {
				for _, f := range formers() {
					c := &v1alpha1.Cell{}
					if err := testplane.Client(t).Get(t.Context(), client.ObjectKey{Name: prefix + "-" + f.name}, c); err != nil {
						return err
					}
					if got := c.Spec.StaleAfter.Duration.String(); got != "2m0s" || !slices.Equal(c.Spec.Namespaces, []string{"shop"}) {
						t.Errorf("%s: staleAfter %s, namespaces %v", f.name, got, c.Spec.Namespaces)
					}
				}
				return nil
			}},
		}})
	})
}

// The provider does not read from the cluster before the apply, so the UID is not known before.
func TestMovedObjectCanChangeBeforeRead(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		runMoves(t, resource.TestCase{
			AdditionalCLIOptions: &resource.AdditionalCLIOptions{Plan: resource.PlanOptions{NoRefresh: true}},
			Steps: []resource.TestStep{
				{Config: of(manifestOf(namespace))},
				{Config: of(protectorOf(namespace, "4", sameAsBefore+"\n deletion_protection = false"))},
			},
		})
	})
}

func TestMoveErrors(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		name := testplane.Namespace(t)
		f := formers()[2]
		cell := f.created("{ apiVersion = \"breakwater.dev/v1alpha1\", kind = \"Cell\", metadata = { name = %q }, spec = {} }", name)
		const data = "resource \"terraform_data\" \"it\" {\n}\n"
		runMoves(t, resource.TestCase{Steps: []resource.TestStep{
			{Config: cell + data},
			{
				Config:      data + f.moved("pod_protector", "namespace = %[1]q\n name = %[1]q\n selector = { match_labels = {} }\n min_available = \"1\"", name),
				ExpectError: matchWrapped("A Cell cannot become a breakwater_pod_protector"),
			},
			{
				Config:      cell + former{name: "it", kind: "terraform_data"}.moved("cell", "name = %q", name),
				ExpectError: matchWrapped("A terraform_data cannot become a breakwater_cell"),
			},
			{Config: cell + data},
		}})
	})
}
