package examples_test

import (
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// The configurations in the guide about GitOps work when pasted alone.
func TestGuidesApply(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		for _, path := range matching(t, "guides/gitops/*.tf") {
			t.Run(path, func(t *testing.T) {
				createFixture(t)
				applyGuide(t, program, path)
			})
		}
	})
}

// applyGuide applies a configuration, and checks that the next plan is empty.
func applyGuide(t *testing.T, program, path string) *terraform.Dir {
	t.Helper()
	d := terraform.New(t, program, "")
	d.Variables = []string{"KUBE_CONFIG_PATH=" + testplane.Kubeconfig(t)}
	addExample(t, d, path)
	d.Run("apply", "-auto-approve")
	if out, err := d.Try("plan", "-detailed-exitcode"); err != nil {
		t.Errorf("the second plan is not empty: %v\n%s", err, out)
	}
	return d
}

// The guide about moving imports a protector as the field manager of the previous provider. Later, this provider takes over all of its fields.
func TestMovingGuide(t *testing.T) {
	const path = "guides/moving-from-kubernetes-manifest/imported.tf"
	forEachProgram(t, func(t *testing.T, program string) {
		for _, manager := range []string{"Terraform", "HashiCorp"} {
			t.Run(manager, func(t *testing.T) {
				createFixture(t)
				before := createExisting(t, manager)
				d := terraform.New(t, program, "")
				d.Variables = []string{"KUBE_CONFIG_PATH=" + testplane.Kubeconfig(t)}
				d.Write("guide.tf", strings.Replace(destructible(read(t, path)), `"Terraform"`, strconv.Quote(manager), 1))
				if out := d.Run("plan"); !strings.Contains(out, "1 to import, 0 to add, 1 to change, 0 to destroy") {
					t.Errorf("plan of the guide:\n%s", out)
				}
				d.Run("apply", "-auto-approve")
				_, resource, _ := strings.Cut(d.Read("guide.tf"), "resource \"breakwater_pod_protector\"")
				d.Write("guide.tf", "resource \"breakwater_pod_protector\""+strings.NewReplacer("70%", "80%", `labels        = { team = "shop" }`, "").Replace(resource))
				d.Run("apply", "-auto-approve")
				after := gone(t, before)
				if after == nil || after.UID != before.UID || after.Spec.MinAvailable.String() != "80%" || len(after.Labels) > 0 {
					t.Fatalf("the protector has become %+v", after)
				}
				for _, entry := range after.ManagedFields {
					if entry.Subresource == "" && entry.Manager != "breakwater-terraform" {
						t.Errorf("%s still owns %s", entry.Manager, entry.FieldsV1.GetRawString())
					}
				}
			})
		}
	})
}

// createExisting creates the protector that the guide about moving imports, as kubernetes_manifest (Terraform) or kubectl_manifest (HashiCorp)
// does.
func createExisting(t *testing.T, manager string) *v1alpha1.PodProtector {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"app": "search"}}, "minAvailable": "70%"}}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodProtector"))
	object.SetNamespace("shop")
	object.SetName("search")
	object.SetLabels(map[string]string{"team": "shop"})
	c, err := testplane.Client(t), error(nil)
	if manager == "HashiCorp" {
		err = c.Create(t.Context(), object, client.FieldOwner(manager))
	} else {
		err = c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(manager))
	}
	if err != nil {
		t.Fatal(err)
	}
	return gone(t, &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "search"}})
}

// The guide about several cores is one configuration.
func TestFederationGuide(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		createFixture(t)
		c, err := client.New(testplane.Second(t), client.Options{Scheme: clusters.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		const guide = "guides/several-cores-and-workers"
		d := terraform.New(t, program, "")
		prepareDir(t, d)
		for _, path := range matching(t, guide+"/*.tf") {
			name, _ := strings.CutPrefix(path, guide+"/")
			d.Write(name, destructible(read(t, path)))
		}
		d.Run("apply", "-auto-approve")
		if out, err := d.Try("plan", "-detailed-exitcode"); err != nil {
			t.Errorf("the second plan is not empty: %v\n%s", err, out)
		}
		for core, c := range map[string]client.Client{"eu": testplane.Client(t), "us": c} {
			cells := &v1alpha1.CellList{}
			if err := c.List(t.Context(), cells); err != nil || len(cells.Items) != 2 {
				t.Errorf("core %s has %d Cells: %v", core, len(cells.Items), err)
			}
		}
		d.Run("destroy", "-auto-approve")
	})
}
