package convert

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/selectorindex"
)

// tellOverlaps warns of protectors that can cover the same pods. Which pods a targetRef leads to is known in a cluster
// alone, so that two of those overlap here only when they are the same; the condition Overlapping tells of the rest.
func tellOverlaps(drafts []draft) {
	byNamespace := map[string][]int{}
	covered := make([]selectorindex.Coverage, len(drafts))
	for i := range drafts {
		d := &drafts[i]
		covered[i], _ = selectorindex.CoverageOf(&d.protector.Spec, nil) // its selectors have been compiled before
		for _, j := range byNamespace[d.protector.Namespace] {
			other := &drafts[j]
			if sameTarget(d.protector.Spec.TargetRef, other.protector.Spec.TargetRef) || covered[i].Overlaps(covered[j]) {
				d.reading.differs(BothMustAdmit, "it can cover the same pods as %s: both are converted, and a removal of such a pod needs the budget of both",
					other.reading.from)
			}
		}
		byNamespace[d.protector.Namespace] = append(byNamespace[d.protector.Namespace], i)
	}
}

func sameTarget(a, b *v1alpha1.TargetRef) bool {
	if a == nil || b == nil {
		return false
	}
	one, other := schema.FromAPIVersionAndKind(a.APIVersion, a.Kind), schema.FromAPIVersionAndKind(b.APIVersion, b.Kind)
	return one.GroupKind() == other.GroupKind() && a.Name == b.Name
}

func sameProtector(a, b *v1alpha1.PodProtector) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec)
}
