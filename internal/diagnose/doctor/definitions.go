package doctor

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// definitions compares the CRDs of a core with those of this version of the tool.
func definitions(core *Core, want []apiextensionsv1.CustomResourceDefinition) []Finding {
	f := finder{core.where(), "crds"}
	if err := core.Definitions.Err; err != nil {
		return f.unread("CustomResourceDefinitions", err, "Ask for the right to list customresourcedefinitions, or see --as.")
	}
	var found []Finding
	var other []string
	for i := range want {
		name := want[i].Name
		at := slices.IndexFunc(core.Definitions.Value, func(d apiextensionsv1.CustomResourceDefinition) bool { return d.Name == name })
		if at < 0 {
			found = append(found, f.bad(Problem, "The CustomResourceDefinition "+name+" is not there.", "Install the chart breakwater-crds.", ""))
			continue
		}
		switch have := &core.Definitions.Value[at]; {
		case have.DeletionTimestamp != nil:
			found = append(found, f.bad(Problem, "The CustomResourceDefinition "+name+" is being deleted, which nobody can take back.",
				"See docs/disasters.md, \"The CRD is deleted\".", ""))
		case !established(have):
			found = append(found, f.bad(Problem, "The CustomResourceDefinition "+name+" is not served.", "Look at its conditions: kubectl describe crd "+name+".", ""))
		case !sameSchema(have, &want[i]):
			other = append(other, name)
		}
	}
	if len(other) > 0 {
		found = append(found, f.bad(Warning, "These CustomResourceDefinitions are of another version than kubectl breakwater: "+some(other)+".",
			"Upgrade the chart breakwater-crds before the chart breakwater, or kubectl breakwater.", ""))
	}
	return f.or(found, "All %d are there, as this version has them.", len(want))
}

func established(d *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

func sameSchema(have, want *apiextensionsv1.CustomResourceDefinition) bool {
	return equality.Semantic.DeepEqual(schemaOf(have), schemaOf(want))
}

func schemaOf(d *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceValidation {
	for i := range d.Spec.Versions {
		if d.Spec.Versions[i].Name == v1alpha1.GroupVersion.Version && d.Spec.Versions[i].Served {
			return d.Spec.Versions[i].Schema
		}
	}
	return nil
}
