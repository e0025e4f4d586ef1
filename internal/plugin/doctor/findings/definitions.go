package findings

import (
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// checkDefinitions compares the CRDs of a core with those of this version of the tool.
func checkDefinitions(core *Core, want []apiextensionsv1.CustomResourceDefinition) []Finding {
	f := reporter{core.where(), "crds"}
	if err := core.Definitions.Err; err != nil {
		return f.unreadable("CustomResourceDefinitions", err, "Ask for permission to list customresourcedefinitions, or use --as.")
	}
	var found []Finding
	var differing []string
	for i := range want {
		name := want[i].Name
		at := slices.IndexFunc(core.Definitions.Value, func(d apiextensionsv1.CustomResourceDefinition) bool { return d.Name == name })
		if at < 0 {
			found = append(found, f.finding(Problem, "The CustomResourceDefinition "+name+" does not exist.", "Install the chart breakwater-crds.", ""))
			continue
		}
		switch have := &core.Definitions.Value[at]; {
		case have.DeletionTimestamp != nil:
			found = append(found, f.finding(Problem, "The CustomResourceDefinition "+name+" is being deleted, which cannot be undone.",
				"See docs/concepts/disasters.md, \"The CRD is deleted\".", ""))
		case !apihelpers.IsCRDConditionTrue(have, apiextensionsv1.Established):
			found = append(found, f.finding(Problem, "The CustomResourceDefinition "+name+" is not served.", "Check its conditions: kubectl describe crd "+name+".", ""))
		case !equality.Semantic.DeepEqual(schemaOf(have), schemaOf(&want[i])):
			differing = append(differing, name)
		}
	}
	if len(differing) > 0 {
		found = append(found, f.finding(Warning, "These CustomResourceDefinitions have another version than kubectl breakwater: "+joinNames(differing)+".",
			"Upgrade the chart breakwater-crds before the chart breakwater, or kubectl breakwater.", ""))
	}
	return f.orOK(found, "All %d exist and match this version.", len(want))
}

func schemaOf(d *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceValidation {
	for i := range d.Spec.Versions {
		if d.Spec.Versions[i].Name == v1alpha1.GroupVersion.Version && d.Spec.Versions[i].Served {
			return d.Spec.Versions[i].Schema
		}
	}
	return nil
}
