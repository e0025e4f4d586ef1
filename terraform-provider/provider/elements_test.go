package provider_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// sharedRing is a ring to which Terraform and other field managers add resources.
type sharedRing struct {
	*terraform.Dir
	client client.Client
	name   string
}

// apply applies the resources with Terraform, and checks that the next plan is empty.
func (r *sharedRing) apply(resources string) string {
	r.Helper()
	r.Write("ring.tf", fmt.Sprintf("resource \"breakwater_cluster_ring\" \"it\" {\n  name = %q\n  resources = [%s]\n}\n", r.name, resources))
	out := r.Run("apply", "-auto-approve")
	r.unchanged()
	return strings.Join(strings.Fields(strings.ReplaceAll(out, "│", " ")), " ")
}

func (r *sharedRing) unchanged() {
	r.Helper()
	if out, err := r.Try("plan", "-detailed-exitcode"); err != nil {
		r.Fatalf("the plan is not empty: %v\n%s", err, out)
	}
}

// applyAsOther applies the resources as another field manager, without the groups that the API server defaults.
func (r *sharedRing) applyAsOther(resources string) {
	r.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte("{spec: {resources: ["+resources+"]}}"), &object.Object); err != nil {
		r.Fatal(err)
	}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ClusterRing"))
	object.SetName(r.name)
	if err := r.client.Apply(r.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("kubectl")); err != nil {
		r.Fatal(err)
	}
}

func (r *sharedRing) live() *v1alpha1.ClusterRing {
	r.Helper()
	ring := &v1alpha1.ClusterRing{}
	if err := r.client.Get(r.Context(), client.ObjectKey{Name: r.name}, ring); err != nil {
		r.Fatal(err)
	}
	return ring
}

// edit changes the resources as a user who edits the ring would.
func (r *sharedRing) edit(change func([]v1alpha1.RingResource)) {
	r.Helper()
	ring := r.live()
	change(ring.Spec.Resources)
	if err := r.client.Update(r.Context(), ring, client.FieldOwner("by-hand")); err != nil {
		r.Fatal(err)
	}
}

// wantResources checks that the ring has exactly these resources, each followed by its controlled resources.
func (r *sharedRing) wantResources(want ...string) {
	r.Helper()
	var got []string
	for _, one := range r.live().Spec.Resources {
		names := []string{one.Resource}
		for _, controlled := range one.ControlledResources {
			names = append(names, controlled.Resource)
		}
		slices.Sort(names[1:])
		got = append(got, strings.Join(names, " "))
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		r.Fatalf("resources of the ring (-want +got):\n%s", diff)
	}
}

// Elements with keys have their own field managers, as fields have.
func TestRingResourcesOfOtherManagersStay(t *testing.T) {
	const deployments = `{ group = "apps", resource = "deployments", controlled_resources = [{ group = "apps", resource = "replicasets" }] }`
	forEachProgram(t, func(t *testing.T) {
		r := &sharedRing{Dir: workingDir(t, configured(t, "")), client: testplane.Client(t), name: testplane.Namespace(t)}
		r.apply(deployments + `, { resource = "configmaps" }`)

		r.applyAsOther(`{resource: secrets}, {group: apps, resource: deployments, controlledResources: [{resource: pods}]}, {resource: nodes}`)
		r.unchanged()
		r.wantResources("configmaps", "deployments pods replicasets", "nodes", "secrets")

		// In another order, with one more resource, and with one that another manager owns as well.
		r.apply(`{ resource = "nodes" }, { resource = "configmaps" }, { group = "batch", resource = "jobs" }, ` + deployments)
		r.wantResources("configmaps", "deployments pods replicasets", "jobs", "nodes", "secrets")

		r.edit(slices.Reverse)
		r.unchanged()
		r.edit(func(resources []v1alpha1.RingResource) {
			i := slices.IndexFunc(resources, func(one v1alpha1.RingResource) bool { return one.Resource == "configmaps" })
			resources[i].Resource = "endpoints"
		})
		if out, err := r.Try("plan", "-detailed-exitcode"); err == nil || !strings.Contains(err.Error(), "exit status 2") {
			t.Errorf("plan reports no drift for a changed resource: %v\n%s", err, out)
		}
		r.Run("apply", "-auto-approve")
		r.unchanged()
		r.wantResources("configmaps", "deployments pods replicasets", "endpoints", "jobs", "nodes", "secrets")

		out := r.apply(`{ group = "batch", resource = "jobs" }`)
		r.wantResources("deployments pods", "endpoints", "jobs", "nodes", "secrets")
		for _, left := range []string{`group = "apps", resource = "deployments"`, `group = "", resource = "nodes"`} {
			if !strings.Contains(out, "resources["+left+"]") || !strings.Contains(out, " of ClusterRing "+r.name+" stays") {
				t.Errorf("apply does not warn that %s stays:\n%s", left, out)
			}
		}
		if strings.Contains(out, `"configmaps"]`) {
			t.Errorf("apply warns about a deleted resource:\n%s", out)
		}
	})
}

// The name of a resource may come from an object that the same apply creates.
func TestPlanWithUnknownRingResources(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		d := workingDir(t, configured(t, `
variable "second" {
  type = string
}
resource "terraform_data" "first" {
  input = "configmaps"
}
resource "breakwater_cluster_ring" "it" {
  name = %q
  resources = [
    { resource = terraform_data.first.output },
    { resource = var.second, controlled_resources = [{ resource = terraform_data.first.output == "" ? "" : "pods" }, { resource = "nodes" }] },
  ]
}`, testplane.Namespace(t)), "TF_VAR_second=secrets")
		d.Run("validate")
		d.Run("apply", "-auto-approve")
		if out, err := d.Try("plan", "-detailed-exitcode"); err != nil {
			t.Errorf("the second plan is not empty: %v\n%s", err, out)
		}
		d.Variables = []string{"TF_VAR_second=configmaps"}
		if out, err := d.Try("plan"); err == nil || !strings.Contains(out, "the same value is there twice") {
			t.Errorf("plan accepts a duplicate resource: %v\n%s", err, out)
		}
		d.Variables = []string{"TF_VAR_second=secrets"}
	})
}
