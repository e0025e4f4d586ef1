package topology

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// protectorExcess is how many more pods of a protector are available than are expected.
type protectorExcess struct {
	namespace, name string
	pods            int
}

// excessesOf returns the protectors with the condition ExpectationBelowPods, at most that many: those with the most extra pods come first. It uses
// the informational fields of their status.
func excessesOf(protectors []v1alpha1.PodProtector, maxProtectors int) (all []protectorExcess) {
	for i := range protectors {
		p := &protectors[i]
		if p.Status.ExpectedReplicas == nil || !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionExpectationBelowPods) {
			continue
		}
		if more := int(p.Status.Summary.Available) - int(*p.Status.ExpectedReplicas); more > 0 {
			all = append(all, protectorExcess{p.Namespace, p.Name, more})
		}
	}
	slices.SortFunc(all, func(a, b protectorExcess) int {
		return cmp.Or(cmp.Compare(b.pods, a.pods), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return all[:min(len(all), maxProtectors)]
}
