package provider_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestDeletionProtection(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		config := func(name, more string) string {
			return configured(t, "resource \"breakwater_pod_protector\" \"web\" {\n namespace = %q\n name = %q\n selector = { match_labels = {} }\n min_available = \"1\"\n %s\n}", namespace, name, more)
		}
		steps(t,
			resource.TestStep{Config: config("web", "")},
			resource.TestStep{Config: config("web", ""), Destroy: true, ExpectError: matchWrapped("PodProtector " + namespace + "/web would be deleted, and its deletion_protection is true")},
			resource.TestStep{Config: config("other", ""), ExpectError: matchWrapped("is protected from deletion")},
			resource.TestStep{Config: config("other", "deletion_protection = false"), ExpectError: matchWrapped("is protected from deletion")},
			resource.TestStep{Config: config("web", "deletion_protection = false")},
			resource.TestStep{Config: config("other", ""), Check: resource.TestCheckResourceAttr(web, "name", "other")},
			resource.TestStep{Config: config("other", "deletion_protection = false")},
		)
	})
}

func TestDeleteReportsWhatItWaitsFor(t *testing.T) {
	for finalizer, want := range map[string]string{
		v1alpha1.FinalizerHold:      "breakwater generator removes it as soon as it observes the deletion",
		v1alpha1.FinalizerProtector: "breakwater generator removes it when the workload Deployment/web that it was derived from is deleted",
		"example.com/hold":          "another component set it",
	} {
		t.Run(finalizer, func(t *testing.T) {
			forEachProgram(t, func(t *testing.T) {
				namespace := testplane.Namespace(t)
				config := protector(t, namespace, "selector = { match_labels = {} }\n min_available = \"1\"\n timeouts {\n delete = \"2s\"\n}")
				steps(t,
					resource.TestStep{Config: config},
					resource.TestStep{
						PreConfig: editOutside(t, namespace, func(p *v1alpha1.PodProtector) {
							p.Finalizers = []string{finalizer}
							p.Labels = map[string]string{v1alpha1.LabelSourceKind: "Deployment"}
							p.Annotations = map[string]string{v1alpha1.AnnotationSourceName: "web"}
						}),
						Config: config, Destroy: true, ExpectError: matchWrapped(finalizer + ": " + want),
					},
					// The object is still in the state, and Terraform reports its deletion.
					resource.TestStep{Config: config, ConfigPlanChecks: nothingToDo},
					resource.TestStep{
						PreConfig: editOutside(t, namespace, func(p *v1alpha1.PodProtector) { p.Finalizers = nil }),
						Config:    configured(t, ""),
					},
				)
			})
		})
	}
}

func TestCreateWaitsForPendingDeletion(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace, c := testplane.Namespace(t), testplane.Client(t)
		p := &v1alpha1.PodProtector{Spec: v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{}, MinAvailable: v1alpha1.Pods(1)}}
		p.Namespace, p.Name, p.Finalizers = namespace, "web", []string{"example.com/hold"}
		if err := c.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		steps(t,
			resource.TestStep{
				Config:      protector(t, namespace, "selector = { match_labels = {} }\n min_available = \"2\"\n timeouts {\n create = \"2s\"\n}"),
				ExpectError: matchWrapped("example.com/hold"),
			},
			resource.TestStep{
				PreConfig: editOutside(t, namespace, func(p *v1alpha1.PodProtector) { p.Finalizers = nil }),
				Config:    protector(t, namespace, "selector = { match_labels = {} }\n min_available = \"2\""),
				Check:     resource.TestCheckResourceAttr(web, "min_available", "2"),
			},
		)
	})
}
