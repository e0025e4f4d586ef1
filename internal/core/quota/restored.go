package quota

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Unfinished tells whether a protector was made anew in the place of one that vanished, and has not got its status yet.
func Unfinished(p *v1alpha1.PodProtector) bool {
	_, anew := p.Annotations[v1alpha1.AnnotationRestored]
	return anew && !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionRestored)
}

// Void makes counts worth nothing, which were taken of another past, or for another object: what was admitted since, or may
// be under way, is in none of them. What is expected, and of whom, stays known, as does the leadership that others must not
// fall behind.
func Void(a *v1alpha1.Aggregation) {
	kept := *a
	*a = v1alpha1.Aggregation{
		Void: true, CountedSpec: kept.CountedSpec,
		ExpectedReplicas: kept.ExpectedReplicas, Workloads: kept.Workloads, Target: kept.Target, SelectedSpec: kept.SelectedSpec,
		SnapshotVersion: kept.SnapshotVersion, SettledVersion: kept.SettledVersion, LastEventTime: kept.LastEventTime,
		Epoch: kept.Epoch, Holder: kept.Holder, TermVersion: kept.TermVersion,
	}
}

// VoidUntil makes void, in p, which must be the caller's own copy, the counts of all leaderships that began no later than at a
// version of the core. 0 is none.
func VoidUntil(p *v1alpha1.PodProtector, version uint64) {
	for i := range p.Status.Cells {
		if a := &p.Status.Cells[i].Aggregation; IsOfUntil(a, version) {
			Void(a)
		}
	}
}

// IsOfUntil tells whether counts are of a leadership that began no later than at a version of the core; 0 is before all.
func IsOfUntil(a *v1alpha1.Aggregation, version uint64) bool {
	began, err := strconv.ParseUint(a.TermVersion, 10, 64)
	return version > 0 && (err != nil || began <= version)
}

// Restored are the cells of a protector that is made anew: their reservations, and counts that are void.
func Restored(last *v1alpha1.PodProtectorStatus) []v1alpha1.PodProtectorCell {
	cells := last.DeepCopy().Cells
	for i := range cells {
		Void(&cells[i].Aggregation)
	}
	return cells
}

// isRecounted tells whether a protector waits for counts, since it or its core was restored.
func isRecounted(p *v1alpha1.PodProtector) bool {
	return Unfinished(p) || slices.ContainsFunc(p.Status.Cells, func(c v1alpha1.PodProtectorCell) bool { return c.Aggregation.Void })
}
