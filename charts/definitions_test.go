package charts_test

import (
	"context"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestDefinitionsKeepTheirFields(t *testing.T) {
	admin := apiserver(t)
	for _, object := range render(t) {
		if object.GetName() != "breakwater-definitions" {
			continue
		}
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.Delete(context.Background(), object) })
	}
	patch := func(name, text string) error {
		definition := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
		definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		return admin.Patch(t.Context(), definition, client.RawPatch(types.JSONPatchType, []byte("["+text+"]")), client.DryRunAll)
	}
	const ours, schema = "podprotectors.breakwater.dev", "/spec/versions/0/schema/openAPIV3Schema/properties"
	remove := func(path string) string { return `{"op":"remove","path":"` + schema + path + `"}` }
	add := func(path, value string) string {
		return `{"op":"add","path":"` + schema + path + `","value":` + value + `}`
	}
	const cell = "/status/properties/cells/items/properties"
	testplane.Eventually(t, func() string { // policies are in force some time after they are created
		if err := patch(ours, remove("/status/properties/summary")); !isDenied(err) {
			return "the policy is not in force yet: " + errorText(err)
		}
		return ""
	})
	for claim, c := range map[string]struct {
		name, patch string
		denied      bool
	}{
		"a field of the status is lost":          {ours, remove("/status/properties/disruptionsAllowed"), true},
		"a field of the items of a list is lost": {ours, remove(cell + "/aggregation/properties/holder"), true},
		"a field of the items of a list in one":  {ours, remove(cell + "/admissionHistory/properties/buckets/items/properties/podName"), true},
		"a field is renamed":                     {ours, remove("/status/properties/disruptionsAllowed") + "," + add("/status/properties/allowed", `{"type":"integer"}`), true},
		"a field is added":                       {ours, add("/status/properties/newer", `{"type":"integer"}`), false},
		"a description changes":                  {ours, add("/status/description", `"newer"`), false},
		"a label changes":                        {ours, `{"op":"add","path":"/metadata/labels","value":{"a":"b"}}`, false},
		"another API loses a field":              {"certificates.cert-manager.io", remove("/status"), false},
	} {
		t.Run(claim, func(t *testing.T) {
			err := patch(c.name, c.patch)
			if c.denied && (!isDenied(err) || !strings.Contains(err.Error(), "--skip-crds")) || !c.denied && err != nil {
				t.Errorf("error %v, want a denial: %v", err, c.denied)
			}
		})
	}
}
