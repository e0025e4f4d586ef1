package quota

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Unfinished reports whether a protector was recreated in place of one that vanished, and has not got its status back yet.
func Unfinished(p *v1alpha1.PodProtector) bool {
	_, anew := p.Annotations[v1alpha1.AnnotationRestored]
	return anew && !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionRestored)
}

// Void invalidates counts that belong to a history of the core that a restore discarded, or to another object. They may lack removals
// that were admitted since, or are in progress. Void keeps the expected replicas and their workloads, and the epoch and versions that
// later leaders must not fall behind.
func Void(a *v1alpha1.Aggregation) {
	kept := *a
	*a = v1alpha1.Aggregation{
		Void: true, CountedSpec: kept.CountedSpec,
		ExpectedReplicas: kept.ExpectedReplicas, Workloads: kept.Workloads, Target: kept.Target, SelectedSpec: kept.SelectedSpec,
		SnapshotVersion: kept.SnapshotVersion, SettledVersion: kept.SettledVersion, LastEventTime: kept.LastEventTime,
		Epoch: kept.Epoch, Holder: kept.Holder, TermVersion: kept.TermVersion,
	}
}

// VoidUntil invalidates the counts of all leaderships that began at or before the given version of the core. p must be the caller's
// own copy. A version of 0 invalidates none.
func VoidUntil(p *v1alpha1.PodProtector, version uint64) {
	for i := range p.Status.Cells {
		if a := &p.Status.Cells[i].Aggregation; IsOfUntil(a, version) {
			Void(a)
		}
	}
}

// IsOfUntil reports whether counts belong to a leadership that began at or before a version of the core. Version 0 is before all.
func IsOfUntil(a *v1alpha1.Aggregation, version uint64) bool {
	began, err := strconv.ParseUint(a.TermVersion, 10, 64)
	return version > 0 && (err != nil || began <= version)
}

// Restored returns the cells for a protector that is recreated: their reservations, and void counts.
func Restored(last *v1alpha1.PodProtectorStatus) []v1alpha1.PodProtectorCell {
	cells := last.DeepCopy().Cells
	for i := range cells {
		Void(&cells[i].Aggregation)
	}
	return cells
}

// isRecounted reports whether a protector still waits for counts after it or its core was restored.
func isRecounted(p *v1alpha1.PodProtector) bool {
	return Unfinished(p) || slices.ContainsFunc(p.Status.Cells, func(c v1alpha1.PodProtectorCell) bool { return c.Aggregation.Void })
}
