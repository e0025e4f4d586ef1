package convert

import (
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// warnOverlaps warns about protectors that can cover the same pods. The pods of a targetRef are known only if its workload is among the
// targets. Otherwise only an equal targetRef counts as an overlap here, and the condition Overlapping reports the others.
func warnOverlaps(drafts []draft, targets map[workload]*v1alpha1.Target) {
	byNamespace := map[string][]int{}
	covered := make([]selectors.Coverage, len(drafts))
	for i := range drafts {
		d := &drafts[i]
		covered[i], _ = selectors.CoverageOf(&d.protector.Spec, targets[targetOf(d)]) // its selectors were compiled before
		for _, j := range byNamespace[d.protector.Namespace] {
			other := &drafts[j]
			switch {
			case targetOf(d).name != "" && targetOf(d) == targetOf(other):
				d.conversion.warn(BothMustAdmit, "it names the same workload as %s, and a core denies a second protector for a workload "+
					"(breakwater webhook-config --core): keep only one of them", other.conversion.from)
			case covered[i].Overlaps(covered[j]):
				d.conversion.warn(BothMustAdmit, "it can cover the same pods as %s: both are converted, and a removal of such a pod needs budget of both",
					other.conversion.from)
			}
		}
		byNamespace[d.protector.Namespace] = append(byNamespace[d.protector.Namespace], i)
	}
}

// targetOf returns the target of a draft, or the zero workload if the draft has a selector.
func targetOf(d *draft) workload {
	if d.protector.Spec.TargetRef == nil {
		return workload{}
	}
	return workloadOf(d.protector.Namespace, d.protector.Spec.TargetRef)
}
