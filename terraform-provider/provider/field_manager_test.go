package provider_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// withManager returns the configuration with another field manager of the provider.
func withManager(config, manager string) string {
	return strings.Replace(config, "provider \"breakwater\" {\n", "provider \"breakwater\" {\n  field_manager = \""+manager+"\"\n", 1)
}

// appliers returns the field managers that have applied the protector.
func appliers(t *testing.T, namespace string) (names []string, p *v1alpha1.PodProtector) {
	t.Helper()
	p = &v1alpha1.PodProtector{}
	if err := testplane.Client(t).Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "web"}, p); err != nil {
		t.Fatal(err)
	}
	for _, entry := range p.ManagedFields {
		if entry.Operation == metav1.ManagedFieldsOperationApply {
			names = append(names, entry.Manager)
		}
	}
	return names, p
}

func TestNewFieldManagerTakesOverFields(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		before := protector(t, namespace, "selector = { match_labels = {} }\n min_available = \"3\"\n expected_replicas = 5\n labels = { team = \"shop\", tier = \"a\" }")
		after := protector(t, namespace, "selector = { match_labels = {} }\n min_available = \"4\"\n labels = { team = \"shop\" }")
		want := func(manager string) resource.TestCheckFunc {
			return func(*terraform.State) error {
				names, _ := appliers(t, namespace)
				if diff := cmp.Diff([]string{manager}, names); diff != "" {
					t.Errorf("field managers (-want +got):\n%s", diff)
				}
				return nil
			}
		}
		steps(t,
			resource.TestStep{Config: withManager(before, "no\\nname"), ExpectError: matchWrapped("field_manager is not the name of a field manager")},
			resource.TestStep{Config: before, Check: want("breakwater-terraform")},
			resource.TestStep{Config: withManager(before, "platform"), ConfigPlanChecks: nothingToDo},
			resource.TestStep{Config: withManager(after, "platform"), Check: resource.ComposeAggregateTestCheckFunc(want("platform"), func(*terraform.State) error {
				_, p := appliers(t, namespace)
				if p.Labels["tier"] != "" || p.Spec.ExpectedReplicas != nil || p.Spec.MinAvailable.IntValue() != 4 {
					t.Errorf("the new manager has not released what the configuration removed: %v %v", p.Labels, p.Spec)
				}
				return nil
			})},
			resource.TestStep{Config: withManager(after, "platform"), ConfigPlanChecks: nothingToDo},
			resource.TestStep{Config: withManager(before, "other"), Check: want("other")},
		)
	})
}

// What another configuration of Terraform applied, with another field manager, is not taken over by an import.
func TestImportTakesOverNoFieldManager(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"selector": map[string]any{}, "minAvailable": int64(3)}}}
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodProtector"))
		object.SetNamespace(namespace)
		object.SetName("web")
		err := testplane.Client(t).Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("breakwater-terraform"))
		if err != nil {
			t.Fatal(err)
		}
		config := withManager(protector(t, namespace, "selector = { match_labels = {} }\n min_available = \"4\""), "platform")
		d := workingDir(t, config+"\nimport {\n to = breakwater_pod_protector.web\n id = \""+namespace+"/web\"\n}\n")
		if out := d.Run("plan"); !matchWrapped(`The field manager "breakwater-terraform" owns min_available, and has set it to another value.`).MatchString(out) {
			t.Errorf("plan does not name the other manager:\n%s", out)
		}
		deleteProtectors(t, namespace)
	})
}
