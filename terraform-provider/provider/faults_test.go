package provider_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// unreachableConfig is a provider configuration that points to no cluster at all.
const unreachableConfig = "provider \"breakwater\" {\n  host  = \"https://127.0.0.1:9\"\n  token = \"x\"\n}\n"

const floorOfOne = `
resource "breakwater_pod_protector" "web" {
  namespace           = "shop"
  name                = "web"
  selector            = { match_labels = {} }
  min_available       = "1"
  deletion_protection = false
  timeouts {
    create = "1s"
  }
}`

func TestPlanNeedsNoCluster(t *testing.T) {
	withBoth(t, func(t *testing.T) {
		steps(t,
			resource.TestStep{Config: unreachableConfig + floorOfOne, PlanOnly: true, ExpectNonEmptyPlan: true},
			resource.TestStep{Config: unreachableConfig + floorOfOne, ExpectError: matchWrapped("connection refused (until the timeout expired)")},
		)
	})
}

// The same apply creates the cluster, so its address is not known when Terraform plans.
func TestClusterOfSameApply(t *testing.T) {
	withBoth(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		steps(t, resource.TestStep{Config: fmt.Sprintf(`
resource "terraform_data" "cluster" {
  input = %q
}
provider "breakwater" {
  config_path = terraform_data.cluster.output
}
`, testplane.Kubeconfig(t)) + floorOfOneIn(namespace)})
	})
}

func floorOfOneIn(namespace string) string {
	return strings.Replace(floorOfOne, `"shop"`, `"`+namespace+`"`, 1)
}

func TestMissingCRD(t *testing.T) {
	second := testplane.Second(t)
	crds := apiextensions.NewForConfigOrDie(second).ApiextensionsV1().CustomResourceDefinitions()
	found, err := crds.Get(t.Context(), "clusterprotectionpolicies.breakwater.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	again := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: found.Name}, Spec: found.Spec}
	without := func() {
		if err := crds.Delete(t.Context(), found.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		testplane.Eventually(t, func() string {
			if _, err := crds.Get(t.Context(), found.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
				return ""
			}
			return "the kind is still there"
		})
	}
	with := func() {
		if _, err := crds.Create(context.Background(), again, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(with)
	path := t.TempDir() + "/kubeconfig"
	writeFile(t, path, testplane.KubeconfigOf(t, second))
	forEachProgram(t, func(t *testing.T) {
		without()
		config := fmt.Sprintf("provider \"breakwater\" {\n config_path = %q\n}\nresource \"breakwater_cluster_protection_policy\" \"all\" {\n name = \"all\"\n}", path)
		steps(t,
			resource.TestStep{Config: config, PlanOnly: true, ExpectNonEmptyPlan: true},
			resource.TestStep{Config: config, ExpectError: matchWrapped("install the chart breakwater-crds first")},
			resource.TestStep{PreConfig: with, Config: config},
		)
	})
	without()
}

func TestForbiddenNamesMissingPermission(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		testplane.User(t, namespace, []rbacv1.PolicyRule{{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors"}, Verbs: []string{"get"}}})
		reader := testplane.AsServiceAccount(t, testplane.Config(t), namespace, "reader", namespace)
		config := withConfig(t, reader) + floorOfOneIn(namespace)
		steps(t,
			// Users who only plan often have fewer permissions than users who apply.
			resource.TestStep{Config: config, PlanOnly: true, ExpectNonEmptyPlan: true},
			resource.TestStep{Config: config, ExpectError: matchWrapped(`cannot patch resource "podprotectors" in API group "breakwater.dev" in the namespace "` + namespace + `"`)},
		)
	})
}

// withConfig returns a provider configuration with the kubeconfig of a user.
func withConfig(t *testing.T, user *rest.Config) string {
	t.Helper()
	path := t.TempDir() + "/kubeconfig"
	writeFile(t, path, testplane.KubeconfigOf(t, user))
	return fmt.Sprintf("provider \"breakwater\" {\n config_path = %q\n}\n", path)
}

// The provider waits for the API server, regardless of the program that runs it.
func TestApplySurvivesAPIServerRestart(t *testing.T) {
	onTerraform(t)
	namespace, c := testplane.Namespace(t), testplane.Client(t)
	config := configured(t, `
resource "breakwater_pod_protector" "many" {
  count               = 60
  namespace           = %q
  name                = "web-${count.index}"
  selector            = { match_labels = { app = "web-${count.index}" } }
  min_available       = "1"
  deletion_protection = false
}`, namespace)
	restarted := make(chan int, 1)
	steps(t,
		resource.TestStep{
			PreConfig: func() {
				go func() {
					made := &v1alpha1.PodProtectorList{}
					for len(made.Items) == 0 && t.Context().Err() == nil {
						_ = c.List(t.Context(), made, client.InNamespace(namespace))
						<-time.After(5 * time.Millisecond)
					}
					testplane.RestartAPIServer(t)
					restarted <- len(made.Items)
				}()
			},
			Config: config,
		},
		resource.TestStep{Config: config, ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}}},
	)
	if before := <-restarted; before == 60 {
		t.Error("apply ended before the API server restarted")
	}
}
